"""Read the spans that may be the answer into values, strictly or leniently, each with its rank."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final

from ao_protocol.contracts.schema_vetting import InvalidSchema
from ao_protocol.contracts.validation import validator_for
from ao_protocol.extraction.decoding import ANNOTATIONS, Inadmissible, decode_span, decode_whole, is_same_json
from ao_protocol.extraction.extraction_result import JsonValue, Reason
from ao_protocol.extraction.mending import Edit, Unmendable, mend_literal, mend_value
from ao_protocol.extraction.regions import FenceKind
from ao_protocol.extraction.survey import Candidate


class Rank(IntEnum):
    """Best first. A value of a later rank is taken only when no earlier one gives a valid value."""

    TAG = 0
    FENCE = 1
    BARE = 2
    CODE = 3
    ASIDE = 4
    """Quoted, presented as an example, or part of prose: an index, a citation, the text of a link."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A value that was read from `start` to `end` of the text, and what was read otherwise than it stands."""

    value: JsonValue
    rank: Rank
    start: int
    end: int
    edits: tuple[Edit, ...] = ()


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
            if candidate.region.excluded:
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
            if candidate.region.excluded or candidate.start < tried_until:
                continue
            limit = len(self._text) if candidate.region.end is None else candidate.region.end
            try:
                mended = mend_value(self._text, candidate.start, limit)
            except Unmendable as error:
                tried_until = error.at
                continue
            tried_until = mended.end
            if not self._is_echo(mended.value):
                rank = self._rank(replace(candidate, end=mended.end))
                yield Reading(mended.value, rank, candidate.start, mended.end, mended.edits)

    def _rank(self, candidate: Candidate) -> Rank:
        return rank_of(self._text, candidate, schema_known=self._schema is not None)

    def _is_echo(self, value: JsonValue) -> bool:
        echo = self._schema is not None and is_echo(value, self._schema)
        if echo:
            self.obstacle = Inadmissible(Reason.SCHEMA_ECHO)
        return echo


def validity_under(schema: Mapping[str, Any] | None) -> Callable[[JsonValue], bool]:
    """Return the predicate for a schema; without one every value is valid, under a broken one none is."""
    if schema is None:
        return lambda _: True
    try:
        return validator_for(schema).is_valid
    except InvalidSchema:
        return lambda _: False


def rank_of(text: str, candidate: Candidate, *, schema_known: bool) -> Rank:
    """Rank a value by its place. Without a schema nothing else tells a citation from an answer."""
    region = candidate.region
    if region.in_answer:
        return Rank.TAG
    if _is_introduced_as_aside(text, candidate.start if region.introduced_at is None else region.introduced_at):
        return Rank.ASIDE
    if region.fence is not FenceKind.NONE:
        return Rank.FENCE if region.fence is FenceKind.JSON else Rank.CODE
    return Rank.ASIDE if _is_prose(text, candidate, schema_known) else Rank.BARE


def _is_introduced_as_aside(text: str, at: int) -> bool:
    start = max(0, at - _LONGEST_LEAD)
    lead = text[text.rfind("\n", start, at) + 1 or start : at]
    return _BLOCKQUOTE.match(lead) is not None or _ASIDE.search(text, start, at) is not None


def _is_prose(text: str, candidate: Candidate, schema_known: bool) -> bool:
    start, end = candidate.start, candidate.end
    if start and (text[start - 1].isalnum() or text[start - 1] in "_])"):
        return True
    if text.startswith("(", end) and text.startswith("[", start):
        return True
    return not schema_known and end - start <= _LONGEST_CITATION and _CITATION.fullmatch(text, start, end) is not None


_LONGEST_LEAD: Final = 80
_LONGEST_CITATION: Final = 12
_CITATION: Final = re.compile(r"\[\s*[0-9]*\s*\]|\{\s*\}")
_BLOCKQUOTE: Final = re.compile(r"\s*>")
_ASIDE: Final = re.compile(
    r"(?:\b(?:example|sample|template|placeholder|draft|input|e\.g\.|for instance|such as)\b"
    r"[^.,;:!?{}\[\]\n]{0,30}[:,]?|\b(?:not|instead of|rather than))[\s*_`\"'(]*\Z",
    re.IGNORECASE,
)


def is_echo(value: JsonValue, schema: Mapping[str, Any]) -> bool:
    """Tell whether a value repeats the schema, annotations aside, alone or as a member, or is poured into it."""
    if not isinstance(value, dict) or len(schema.keys() - ANNOTATIONS) == 0:
        return False
    if is_same_json(value, dict(schema), as_schemas=True) or _is_poured_into_schema(value, schema):
        return True
    members = value.values() if len(schema.keys() - ANNOTATIONS) > 1 else ()
    return any(is_same_json(member, dict(schema), as_schemas=True) for member in members)


def _is_poured_into_schema(value: dict[str, JsonValue], schema: Mapping[str, Any]) -> bool:
    """Tell whether the value has the shape of a schema where the schema asks for none."""
    wanted = schema.get("properties")
    if not isinstance(wanted, dict) or not wanted or "properties" in wanted:
        return False
    return value.get("type") == "object" and isinstance(value.get("properties"), dict)
