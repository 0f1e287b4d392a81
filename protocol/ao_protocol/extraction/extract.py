"""Extraction of a JSON value: the whole text, else a value in it, else, on request, a repaired value."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from itertools import islice
from typing import Any, Final

from ao_protocol.extraction.breaks import MEMBER_AFTER_MEMBER, follows
from ao_protocol.extraction.damage import break_in, refusal_at
from ao_protocol.extraction.strict_json import (
    ANNOTATIONS,
    JsonValue,
    NoJsonFound,
    Reason,
    decode_first,
    decode_span,
    decode_whole,
    end_of,
    is_same_json,
    path_of_duplicate,
)
from ao_protocol.extraction.survey import Candidate, Candidates, FenceKind, Region, survey

MAX_CHARACTERS: Final = 16 * 1024 * 1024
"""The size of the largest invocation. A longer answer is refused without a search."""
MAX_SEARCHED_CHARACTERS: Final = 2 * 1024 * 1024
"""A longer answer must be JSON as a whole, because a search takes microseconds a character."""
MAX_UNWRAPPED: Final = 3
"""How often a JSON string that contains JSON is decoded."""

_PADDING: Final = " \t\r\n\f\v\u00a0\u180e\u200b\u200c\u200d\u2060\u2007\u202f\ufeff"


class Source(StrEnum):
    """The place of the value in the answer."""

    WHOLE = "whole"
    TAG = "tag"
    FENCE = "fence"
    BARE = "bare"


@dataclass(frozen=True, slots=True)
class Extraction:
    """The JSON value of an answer.

    `value` is the result of a strict JSON parser for a part of the text, changed only by the repairs in `edits`.
    `source` is its place. `valid` is whether it satisfies the schema; it is true without a schema. It is false only if
    no value in the text is valid, so that the caller can report the problems of the best one. `ambiguous` is true if
    the text has different valid values, of which `others` has one, or breaks off in a later one. `edits` is empty
    without lenient reading; each entry names a repair and its place.
    """

    value: JsonValue
    source: Source
    valid: bool = True
    ambiguous: bool = False
    edits: tuple[str, ...] = ()
    others: tuple[JsonValue, ...] = field(default=(), compare=False)


class Rank(IntEnum):
    """The rank of a value's place, the best first. A later rank counts only if no earlier one has a valid value."""

    TAG = 0
    FENCE = 1
    BARE = 2
    CODE = 3
    ASIDE = 4
    """Quoted, given as an example, or part of prose: an index, a citation, the text of a link."""


@dataclass(frozen=True, slots=True)
class ReadValue:
    """A value that was read from `start` to `end` of the text; `edits` are the repairs and their places."""

    value: JsonValue
    rank: Rank
    start: int
    end: int
    edits: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Choice:
    """The chosen reading, and one with a different value that is valid too, if there is one."""

    reading: ReadValue
    valid: bool
    others: tuple[JsonValue, ...] = ()

    def extraction(self, offset: int, source: Source | None = None, *, breaks_off: bool = False) -> Extraction:
        reading = self.reading
        edits = tuple(f"{what} at character {offset + at}" for what, at in reading.edits)
        source = source or _SOURCES.get(reading.rank, Source.BARE)
        return Extraction(reading.value, source, self.valid, bool(self.others) or breaks_off, edits, self.others)


def extract_json(text: str, schema: Mapping[str, Any] | None = None, *, lenient: bool = False) -> Extraction:
    """Return the JSON value that a text gives as its answer (SPEC 9.4).

    If the whole text is JSON, it is the value. Otherwise it is the last valid value in the best place: an answer tag, a
    fence, the bare text, a fence of another language, an aside. It is never a value from thinking, examples or tool
    calls, never a part of a larger or broken value, and never the schema itself. For any text, time is linear in its
    length, and nesting is followed to `MAX_DEPTH` only.

    With `lenient`, and only if strict reading finds no valid value, damage is repaired if that cannot change data
    (docs/decisions/extraction.md lists the repairs). Nothing is invented, and no truncated value is completed.

    An invalid value is returned only if no value is valid; then `valid` is false. Under an unacceptable schema no value
    is valid, so call `check_schema` before.

    Args:
        text: The text of the model: at most 16 Mi characters, or 2 Mi if it is not JSON as a whole.
        schema: The JSON Schema Draft-7 of the value; None accepts any value.
        lenient: Whether damage is repaired.

    Returns:
        The value, its place, whether it is valid, and the repairs.

    Raises:
        NoJsonFound: The text has no such value; `reason` is why. After `TRUNCATED` another attempt ends at the same
            limit.
    """
    if len(text) > MAX_CHARACTERS:
        raise NoJsonFound(Reason.TOO_LARGE, f"{len(text)} characters, at most {MAX_CHARACTERS} are read")
    answer = text.strip(_PADDING)
    offset = len(text) - len(text.lstrip(_PADDING))
    is_valid = validity_under(schema)
    reader = Reader(answer, schema, text[:offset])
    whole = _choose(reader.read_whole(), is_valid)
    if whole is not None:
        return whole.extraction(offset, Source.WHOLE)

    only = _choose(reader.read_only(), is_valid) if len(answer) <= MAX_SEARCHED_CHARACTERS else None
    if only is not None and only.valid:
        return only.extraction(offset)
    if len(answer) > MAX_SEARCHED_CHARACTERS:
        searched = f"JSON is looked for in at most {MAX_SEARCHED_CHARACTERS}; answer with the JSON alone"
        raise NoJsonFound(Reason.TOO_LARGE, f"{len(answer)} characters, {searched}")
    found = survey(answer)
    strict = _choose(reader.read_values(found.values), is_valid)
    if strict is not None and strict.valid:
        if schema is None and strict.others and _is_sequence(answer, found):
            raise NoJsonFound(Reason.SEVERAL_VALUES)
        breaks_off = found.unfinished_at is not None and found.unfinished_at > strict.reading.start
        return strict.extraction(offset, breaks_off=breaks_off)
    mended = _choose(reader.mend_values(found.broken), is_valid) if lenient else None
    if mended is not None and mended.valid:
        is_all = (mended.reading.start, mended.reading.end) == (0, len(answer))
        return mended.extraction(offset, Source.WHOLE if is_all else None)
    is_meant = strict is not None and not (
        found.broken and reader.is_citation(strict.reading.start, strict.reading.end)
    )
    if strict is not None and is_meant and found.reason_of_break is not Reason.TRUNCATED:
        return strict.extraction(offset)
    raise _refusal(found, reader)


def _is_sequence(text: str, found: Candidates) -> bool:
    """Return whether the text has nothing but values, one after the other, as NDJSON does."""
    position = 0
    for candidate in found.values:
        if text[position : candidate.start].strip(" \t\r\n,"):
            return False
        position = candidate.end
    return not text[position:].strip()


def _refusal(found: Candidates, reader: "Reader") -> NoJsonFound:
    """Return the main reason, with a place. Truncation comes first, because another attempt does not help."""
    if found.reason_of_break is Reason.TRUNCATED:
        return reader.refusal(Reason.TRUNCATED, len(reader.text))
    if reader.obstacle is not None:
        return reader.refusal_of_value(*reader.obstacle)
    if found.reason_of_break is not None:
        return reader.refusal_of_break(found, found.reason_of_break)
    seen = [*found.values, *found.broken]
    if not seen and not found.pieces_dropped:
        return reader.refusal(Reason.NO_CANDIDATE, 0)
    return reader.refusal(Reason.NOT_AN_ANSWER, seen[0].start if seen else 0)


def _choose(readings: Iterable[ReadValue], is_valid: Callable[[JsonValue], bool]) -> _Choice | None:
    """Return the last valid reading of the best rank, else the last invalid one of the best rank above `ASIDE`."""
    valid: list[ReadValue] = []
    best_invalid: ReadValue | None = None
    for reading in readings:
        found = _valid_form(reading, is_valid)
        if found is not None:
            valid.append(found)
        elif reading.rank < Rank.ASIDE and (best_invalid is None or reading.rank <= best_invalid.rank):
            best_invalid = reading
    if valid:
        best = min(reversed(valid), key=lambda reading: reading.rank)
        others = (other.value for other in valid if other is not best and not is_same_json(best.value, other.value))
        return _Choice(best, valid=True, others=tuple(islice(others, 1)))
    return None if best_invalid is None else _Choice(best_invalid, valid=False)


def _valid_form(reading: ReadValue, is_valid: Callable[[JsonValue], bool]) -> ReadValue | None:
    """Return the valid form of a reading: itself, or the value encoded in its string; None if neither is valid."""
    value = reading.value
    for _ in range(MAX_UNWRAPPED + 1):
        if is_valid(value):
            return replace(reading, value=value)
        if not isinstance(value, str):
            return None
        try:
            value = decode_whole(value)
        except NoJsonFound:
            return None
    return None


def validity_under(schema: Mapping[str, Any] | None) -> Callable[[JsonValue], bool]:
    """Return the predicate of a schema. Without a schema all values are valid, under an unacceptable one no value."""
    if schema is None:
        return lambda _: True
    from ao_protocol.contracts.checks import InvalidSchema
    from ao_protocol.contracts.validation import validator_for

    try:
        return validator_for(schema).is_valid
    except InvalidSchema:
        return lambda _: False


class Reader:
    """Reads the values of one text under one schema.

    `obstacle` is why a well-formed value was not accepted, and where that value begins and ends.
    """

    def __init__(self, text: str, schema: Mapping[str, Any] | None, lead: str = "") -> None:
        self.text = text
        self._lead = lead
        self._schema = schema
        self.obstacle: tuple[NoJsonFound, int, int] | None = None

    def refusal(self, reason: Reason, at: int, why: str = "") -> NoJsonFound:
        """Return a refusal with the place in the whole text."""
        return refusal_at(reason, self._lead + self.text, len(self._lead) + at, why)

    def refusal_of_value(self, refusal: NoJsonFound, start: int, end: int) -> NoJsonFound:
        """Return the refusal of a value with its place."""
        why, span = "", self.text[start:end]
        if refusal.reason is Reason.DUPLICATE_KEYS:
            why = f": {path_of_duplicate(span)}"
        elif refusal.reason is Reason.NUMBER_OUT_OF_RANGE:
            start, why = start + span.find(refusal.detail), f": {refusal.detail}"
        return self.refusal(refusal.reason, start, why)

    def refusal_of_break(self, found: Candidates, reason: Reason) -> NoJsonFound:
        """Return the refusal of the broken value that was most likely meant: where it breaks, and why."""

        def likelihood(each: Candidate) -> tuple[bool, bool, int]:
            return not each.region.excluded, each.region.in_answer, each.end - each.start

        if (broken := max(found.broken, key=likelihood, default=None)) is None:
            return self.refusal(reason, 0)
        if reason is Reason.TOO_DEEP:
            return self.refusal(reason, broken.end)
        limit = len(self.text) if broken.region.end is None else broken.region.end
        at, why = break_in(self.text, broken.start, broken.end, limit)
        return self.refusal(reason, at, f": {why}")

    def read_whole(self) -> Iterator[ReadValue]:
        """Yield the value of the whole text, if it is JSON."""
        try:
            value = decode_whole(self.text)
        except NoJsonFound:
            return
        if not self._is_echo(value):
            yield ReadValue(value, Rank.TAG, 0, len(self.text))

    def read_only(self) -> Iterator[ReadValue]:
        """Yield the only value of a text, bare or in a fence, if the prose around it plainly has no other.

        It is the value that `read_values` yields for such a text, without a step for each mark in the prose.
        """
        text = self.text
        start = end_of(_PROSE, text, 0)
        opened = _FENCE_BEGINS.match(text, start)
        region = Region(0) if opened is None else Region(start, fence=FenceKind.JSON, introduced_at=start)
        start = start if opened is None else opened.end()
        if not text.startswith(("{", "["), start) or follows(MEMBER_AFTER_MEMBER, text, start):
            return
        try:
            value, end = decode_first(text, start)
        except NoJsonFound:
            return
        closed = None if opened is None else _FENCE_ENDS.match(text, end)
        if (closed is None) is not (opened is None) or (closed and opened and not closed[1].startswith(opened[1])):
            return
        is_only = _PROSE.fullmatch(text, end if closed is None else closed.end()) is not None
        if is_only and not self._is_echo(value, start):
            yield ReadValue(value, self._rank(Candidate(start, end, region)), start, end)

    def read_values(self, candidates: list[Candidate]) -> Iterator[ReadValue]:
        """Yield the values of complete spans, except those in excluded regions."""
        for candidate in candidates:
            if candidate.region.excluded:
                continue
            span = self.text[candidate.start : candidate.end]
            try:
                value = decode_span(span)
            except NoJsonFound as error:
                self.obstacle = error, candidate.start, candidate.end
                continue
            if not self._is_echo(value, candidate.start):
                yield ReadValue(value, self._rank(candidate), candidate.start, candidate.end)

    def mend_values(self, candidates: list[Candidate]) -> Iterator[ReadValue]:
        """Yield the repaired values of broken spans whose damage has only one reading."""
        from ao_protocol.extraction.mending import Unmendable, mend_literal, mend_value

        literal = mend_literal(self.text)
        if literal is not None:
            yield ReadValue(literal.value, Rank.TAG, 0, literal.end, literal.edits)
        tried_until = 0
        for candidate in candidates:
            if candidate.region.excluded or candidate.start < tried_until:
                continue
            limit = len(self.text) if candidate.region.end is None else candidate.region.end
            try:
                mended = mend_value(self.text, candidate.start, limit)
            except Unmendable as error:
                tried_until = error.at
                continue
            tried_until = mended.end
            if not self._is_echo(mended.value, candidate.start):
                rank = self._rank(replace(candidate, end=mended.end))
                yield ReadValue(mended.value, rank, candidate.start, mended.end, mended.edits)

    def _rank(self, candidate: Candidate) -> Rank:
        region = candidate.region
        if region.in_answer:
            return Rank.TAG
        at = candidate.start if region.introduced_at is None else region.introduced_at
        start = max(0, at - _LONGEST_LEAD)
        lead = self.text[self.text.rfind("\n", start, at) + 1 or start : at]
        if _BLOCKQUOTE.match(lead) or _ASIDE.search(self.text, start, at) or _REFUTED.match(self.text, candidate.end):
            return Rank.ASIDE
        if region.fence is not FenceKind.NONE:
            return Rank.FENCE if region.fence is FenceKind.JSON else Rank.CODE
        return Rank.ASIDE if self._is_prose(candidate.start, candidate.end) else Rank.BARE

    def _is_prose(self, start: int, end: int) -> bool:
        """Return whether a span is an index, the text of a link or, without a schema, a citation."""
        text = self.text
        if start and (text[start - 1].isalnum() or text[start - 1] in "_])"):
            return True
        if text.startswith("(", end) and text.startswith("[", start):
            return True
        return self._schema is None and self.is_citation(start, end)

    def is_citation(self, start: int, end: int) -> bool:
        """Return whether a span may be a citation such as `[1]`, or is empty."""
        return end - start <= _LONGEST_CITATION and _CITATION.fullmatch(self.text, start, end) is not None

    def _is_echo(self, value: JsonValue, at: int = 0) -> bool:
        """Return whether a value repeats the schema, alone or as a member, or is a schema although none is requested.

        Annotations are ignored.
        """
        schema = dict(self._schema or {})
        keywords = len(schema.keys() - ANNOTATIONS)
        if not isinstance(value, dict) or keywords == 0:
            return False
        wanted = schema.get("properties")
        asks_for_schemas = not isinstance(wanted, dict) or not wanted or "properties" in wanted
        is_poured = value.get("type") == "object" and isinstance(value.get("properties"), dict)
        repeated = [value, *(value.values() if keywords > 1 else ())]
        echo = (is_poured and not asks_for_schemas) or any(is_same_json(x, schema, as_schemas=True) for x in repeated)
        if echo:
            self.obstacle = NoJsonFound(Reason.SCHEMA_ECHO), at, at
        return echo


_PROSE: Final = re.compile(
    r"""(?>(?:[^\[\]{}<`~◁]++|`{1,2}+(?!`)|~{1,2}+(?!~)|<(?![A-Za-z/!])
    |(?:(?<=[A-Za-z,;:"'])|(?<=[A-Za-z,;:"']\ ))`{3,}+(?!(?>(?:[A-Za-z][\w+\#-]*+)?)[ \t\r]*+(?:\n|\Z))
    |\{(?!\s*+["}])[^\[\]{}<`~◁]*+\}|\[(?!\s*+["\[\]{\-0-9tfn]|/|T)[^\[\]{}<`~◁]*+\])*)""",
    re.VERBOSE,
)
"""Text in which `survey` finds no value, no region and nothing that is left open."""
_FENCE_BEGINS: Final = re.compile(r"(?<![^\n])(`{3,}+)(?:json)?\n\s*+")
_FENCE_ENDS: Final = re.compile(r"\s*+(?<=\n)(`{3,}+)[ \t\r]*+(?=\n|\Z)")
_SOURCES: Final = {Rank.TAG: Source.TAG, Rank.FENCE: Source.FENCE, Rank.CODE: Source.FENCE}
_LONGEST_LEAD: Final = 80
_LONGEST_CITATION: Final = 12
_CITATION: Final = re.compile(r"\[\s*[0-9]*\s*\]|\{\s*\}")
_BLOCKQUOTE: Final = re.compile(r"\s*>")
_ASIDE: Final = re.compile(
    r"""(?:(?:\b(?:example|sample|template|placeholder|draft|input|for\ instance|such\ as|counter-?example
        |zum\ beispiel|beispiel|beispielsweise|gegenbeispiel|entwurf|eingabe|par\ exemple|por\ ejemplo|per\ esempio
        |if\b[^.!?{}\[\]\n]{0,50}\bhad|otherwise[^.!?{}\[\]\n]{0,20}\ (?:would|could|might)|sonst\ (?:hätte|wäre))\b
        |\b(?:e\.g\.|z\.\ ?b\.))[^.,;:!?{}\[\]\n]{0,30}[:,]?
    |\b(?:would|could|might)(?:n't|\ not)?(?:\ have|'ve)\ (?:been|given|produced|read|returned|said|scored):?
    |\b(?:former|initial|old|original|previous|alte|ursprüngliche|vorherige)\ (?:\w+\ ){0,3}(?:was|were|had|read|war):?
    |(?:\A|[\n(*_|]|[.;,]\ )\s*(?:the\ )?(?:before|old|original|previous|alt|vorher)(?:\ \w+)?[*_]*\s*[:=][*_]*
    |\b(?:formerly|originally|otherwise|previously|ursprünglich|vorher|zuvor|unlike|versus|vs\.?|compared\ to)[:,]?
    |\b(?:not|instead\ of|rather\ than|nicht|statt|anstatt|anstelle\ von)|\((?:it\ |this\ |es\ )?(?:was|war):?
    )[\s*_`"'(]*\Z""",
    re.IGNORECASE | re.VERBOSE,
)
"""What is before a value that illustrates, or that was or would have been in place of the answer."""
_REFUTED: Final = re.compile(
    r"""[ *_`"')]*(?:\b(?:would|could|is|was|wäre|ist|war)\b[^.,;:!?{}\[\]\n]{0,20})?"""
    r"\b(?:wrong|incorrect|invalid|falsch|ungültig|gewesen)\b",
    re.IGNORECASE,
)
"""What follows a value that is not the answer."""
