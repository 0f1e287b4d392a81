"""The story of an extraction: the whole text, else the values in it, else, on request, what can be mended."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ao_protocol.output.extraction.candidates import Candidate, Candidates
from ao_protocol.output.extraction.choose import Choice, Reading, choose
from ao_protocol.output.extraction.decode import Inadmissible, decode_span, decode_whole
from ao_protocol.output.extraction.echo import is_echo
from ao_protocol.output.extraction.limits import MAX_CHARACTERS
from ao_protocol.output.extraction.mend import Unmendable, mend_literal, mend_value
from ao_protocol.output.extraction.outcome import Extraction, NoJsonFound, Reason, Source
from ao_protocol.output.extraction.rank import Rank, rank_of
from ao_protocol.output.extraction.survey import survey
from ao_protocol.output.extraction.verdict import validity_under


def extract_json(text: str, schema: Mapping[str, Any] | None = None, *, lenient: bool = False) -> Extraction:
    """Return the JSON value that the text gives as its answer.

    The whole text, if it is JSON; else the last value that keeps the schema in the best place that holds one:
    an answer tag, a fence, the bare text, a fence for another language, an aside. Never a value from thinking,
    examples or tool calls, never a piece of a larger or broken value, never the schema itself. Time is linear
    in the length of the text and no input is followed deeper than `MAX_DEPTH`, whatever a model writes.

    With `lenient`, and only if strict reading gives no valid value, damage is mended that cannot change data
    (docs/decisions/extraction.md lists it); nothing is invented and no truncated value is completed.

    A value that does not keep the schema is returned only where no other does, with `valid` false.
    A schema that is itself invalid accepts nothing; refuse it before.

    Raises:
        NoJsonFound: with the reason; `TRUNCATED` tells that asking again would end at the same limit.
    """
    if len(text) > MAX_CHARACTERS:
        raise NoJsonFound(Reason.TOO_LARGE, f"{len(text)} characters, at most {MAX_CHARACTERS} are read")
    return _Extractor(text.strip(_PADDING), schema).extract(lenient=lenient)


_PADDING: Final = " \t\r\n\f\v\u00a0\u180e\u200b\u200c\u200d\u2060\u2007\u202f\ufeff"
_SOURCES: Final = {Rank.TAG: Source.TAG, Rank.FENCE: Source.FENCE, Rank.CODE: Source.FENCE}


class _Extractor:
    def __init__(self, text: str, schema: Mapping[str, Any] | None) -> None:
        self._text = text
        self._schema = schema
        self._is_valid = validity_under(schema)
        self._obstacle: Reason | None = None
        self._detail = ""

    def extract(self, *, lenient: bool) -> Extraction:
        strict = choose(self._read_whole(), self._is_valid)
        if strict is not None:
            return self._extraction(strict)
        found = survey(self._text)
        strict = choose(self._read_values(found), self._is_valid)
        if strict is not None and strict.valid:
            return self._extraction(self._checked(strict, found))
        if lenient:
            mended = choose(self._mend(found), self._is_valid)
            if mended is not None and mended.valid:
                return self._extraction(mended)
        if strict is None or found.reason_of_break is Reason.TRUNCATED:
            raise self._refusal(found)
        return self._extraction(strict)

    def _read_whole(self) -> Iterator[Reading]:
        try:
            value = decode_whole(self._text)
        except Inadmissible:
            return
        if not self._is_echo(value):
            yield Reading(value, Rank.TAG, 0, len(self._text))

    def _read_values(self, found: Candidates) -> Iterator[Reading]:
        for candidate in found.values:
            if _is_excluded(candidate) or candidate.end is None:
                continue
            try:
                value = decode_span(self._text[candidate.start : candidate.end])
            except Inadmissible as error:
                self._obstacle, self._detail = error.reason, error.detail
                continue
            if not self._is_echo(value):
                yield Reading(value, self._rank(candidate), candidate.start, candidate.end)

    def _mend(self, found: Candidates) -> Iterator[Reading]:
        behind = 0
        literal = mend_literal(self._text)
        if literal is not None:
            yield Reading(literal.value, Rank.TAG, 0, len(self._text), literal.edits)
        for candidate in found.broken:
            if _is_excluded(candidate) or candidate.start < behind:
                continue
            region_end = candidate.region.end if candidate.region is not None else None
            try:
                mended = mend_value(self._text, candidate.start, region_end)
            except Unmendable as error:
                behind = error.at
                continue
            behind = mended.end
            if not self._is_echo(mended.value):
                span = Candidate(candidate.start, mended.end, candidate.region)
                yield Reading(mended.value, self._rank(span), candidate.start, mended.end, mended.edits)

    def _rank(self, candidate: Candidate) -> Rank:
        return rank_of(self._text, candidate, schema_known=self._schema is not None)

    def _is_echo(self, value: Any) -> bool:
        echo = self._schema is not None and is_echo(value, self._schema)
        if echo:
            self._obstacle = Reason.SCHEMA_ECHO
        return echo
