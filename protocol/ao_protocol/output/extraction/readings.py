"""Read the spans that may be the answer into values, strictly or leniently, each with its rank."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ao_protocol.output.extraction.candidates import Candidate
from ao_protocol.output.extraction.choose import Reading
from ao_protocol.output.extraction.decode import Inadmissible, decode_span, decode_whole
from ao_protocol.output.extraction.echo import is_echo
from ao_protocol.output.extraction.mend import mend_literal, mend_value
from ao_protocol.output.extraction.mend_tokens import Unmendable
from ao_protocol.output.extraction.outcome import Reason
from ao_protocol.output.extraction.rank import Rank, rank_of

if TYPE_CHECKING:
    from pydantic import JsonValue


class Reader:
    """Reads one text under one schema, and remembers why a well-formed value could not be taken."""

    def __init__(self, text: str, schema: Mapping[str, Any] | None) -> None:
        self._text = text
        self._schema = schema
        self.obstacle: Inadmissible | None = None

    def read_whole(self) -> Iterator[Reading]:
        """Yield the value that is the whole text, if it is one."""
        try:
            value = decode_whole(self._text)
        except Inadmissible:
            return
        if not self._is_echo(value):
            yield Reading(value, Rank.TAG, 0, len(self._text))

    def read_values(self, candidates: list[Candidate]) -> Iterator[Reading]:
        """Yield the values of complete spans that stand where an answer may stand."""
        for candidate in candidates:
            if candidate.is_excluded:
                continue
            try:
                value = decode_span(self._text[candidate.start : candidate.end])
            except Inadmissible as error:
                self.obstacle = error
                continue
            if not self._is_echo(value):
                yield Reading(value, self._rank(candidate), candidate.start, candidate.end)

    def mend_values(self, candidates: list[Candidate]) -> Iterator[Reading]:
        """Yield what broken spans hold, where the damage leaves one reading only."""
        literal = mend_literal(self._text)
        if literal is not None:
            yield Reading(literal.value, Rank.TAG, 0, literal.end, literal.edits)
        tried_until = 0
        for candidate in candidates:
            if candidate.is_excluded or candidate.start < tried_until:
                continue
            try:
                mended = mend_value(self._text, candidate.start, self._limit_of(candidate))
            except Unmendable as error:
                tried_until = error.at
                continue
            tried_until = mended.end
            if not self._is_echo(mended.value):
                rank = self._rank(replace(candidate, end=mended.end))
                yield Reading(mended.value, rank, candidate.start, mended.end, mended.edits)

    def _limit_of(self, candidate: Candidate) -> int:
        end = candidate.region.end if candidate.region is not None else None
        return len(self._text) if end is None else end

    def _rank(self, candidate: Candidate) -> Rank:
        return rank_of(self._text, candidate, schema_known=self._schema is not None)

    def _is_echo(self, value: "JsonValue") -> bool:
        echo = self._schema is not None and is_echo(value, self._schema)
        if echo:
            self.obstacle = Inadmissible(Reason.SCHEMA_ECHO)
        return echo
