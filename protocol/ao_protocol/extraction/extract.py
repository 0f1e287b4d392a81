"""The story of an extraction: the whole text, else the values in it, else, on request, what can be mended."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ao_protocol.extraction.decoding import Inadmissible, decode_whole, is_same_json
from ao_protocol.extraction.extraction_result import (
    MAX_CHARACTERS,
    MAX_SEARCHED_CHARACTERS,
    MAX_UNWRAPPED,
    Extraction,
    JsonValue,
    NoJsonFound,
    Reason,
    Source,
)
from ao_protocol.extraction.readings import Rank, Reader, Reading, validity_under
from ao_protocol.extraction.survey import Candidates, survey


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen reading; `ambiguous` when another valid one gives a different value."""

    reading: Reading
    valid: bool
    ambiguous: bool


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

    Args:
        text: What the model wrote.
        schema: The Draft-7 schema that the value should keep; None takes any value.
        lenient: Whether damage is mended.

    Returns:
        The value, whether it is valid, and what was mended.

    Raises:
        NoJsonFound: with the reason; `TRUNCATED` tells that asking again would end at the same limit.
    """
    if len(text) > MAX_CHARACTERS:
        raise NoJsonFound(Reason.TOO_LARGE, f"{len(text)} characters, at most {MAX_CHARACTERS} are read")
    answer = text.strip(_PADDING)
    offset = len(text) - len(text.lstrip(_PADDING))
    is_valid = validity_under(schema)
    reader = Reader(answer, schema)
    whole = choose(reader.read_whole(), is_valid)
    if whole is not None:
        return _as_extraction(whole, Source.WHOLE, offset)

    if len(answer) > MAX_SEARCHED_CHARACTERS:
        searched = f"JSON is looked for in at most {MAX_SEARCHED_CHARACTERS}; answer with the JSON alone"
        raise NoJsonFound(Reason.TOO_LARGE, f"{len(answer)} characters, {searched}")
    found = survey(answer)
    strict = choose(reader.read_values(found.values), is_valid)
    if strict is not None and strict.valid:
        if schema is None and strict.ambiguous and _is_sequence(answer, found):
            raise NoJsonFound(Reason.SEVERAL_VALUES)
        return _as_extraction(strict, _source_of(strict), offset, breaks_off=_breaks_off(found, strict))
    mended = choose(reader.mend_values(found.broken), is_valid) if lenient else None
    if mended is not None and mended.valid:
        is_all = mended.reading.start == 0 and mended.reading.end == len(answer)
        return _as_extraction(mended, Source.WHOLE if is_all else _source_of(mended), offset)
    if strict is not None and found.reason_of_break is not Reason.TRUNCATED:
        return _as_extraction(strict, _source_of(strict), offset)
    raise _refusal(found, reader.obstacle)


def _as_extraction(choice: Choice, source: Source, offset: int, *, breaks_off: bool = False) -> Extraction:
    reading = choice.reading
    edits = tuple(f"{edit.what} at character {offset + edit.at}" for edit in reading.edits)
    return Extraction(reading.value, source, choice.valid, choice.ambiguous or breaks_off, edits)


def _source_of(choice: Choice) -> Source:
    return _SOURCES.get(choice.reading.rank, Source.BARE)


def _is_sequence(text: str, found: Candidates) -> bool:
    """Tell whether the text holds nothing but values, one after the other, as NDJSON does."""
    position = 0
    for candidate in found.values:
        if text[position : candidate.start].strip(" \t\r\n,"):
            return False
        position = candidate.end
    return not text[position:].strip()


def _refusal(found: Candidates, obstacle: Inadmissible | None) -> NoJsonFound:
    """Say what hinders most. Truncation comes first, since it alone is not mended by asking again."""
    if found.reason_of_break is Reason.TRUNCATED:
        return NoJsonFound(Reason.TRUNCATED)
    if obstacle is not None:
        return NoJsonFound(obstacle.reason, obstacle.detail)
    if found.reason_of_break is not None:
        return NoJsonFound(found.reason_of_break)
    seen = found.pieces_dropped or found.values or found.broken
    return NoJsonFound(Reason.NOT_AN_ANSWER if seen else Reason.NO_CANDIDATE)


def choose(readings: Iterable[Reading], is_valid: Callable[[JsonValue], bool]) -> Choice | None:
    """Return the last valid reading of the best rank, else the last invalid one worth talking about."""
    valid: list[Reading] = []
    best_invalid: Reading | None = None
    for reading in readings:
        found = _valid_form(reading, is_valid)
        if found is not None:
            valid.append(found)
        elif reading.rank < Rank.ASIDE and (best_invalid is None or reading.rank <= best_invalid.rank):
            best_invalid = reading
    if valid:
        best_rank = min(reading.rank for reading in valid)
        best = next(reading for reading in reversed(valid) if reading.rank == best_rank)
        differs = any(other is not best and not is_same_json(best.value, other.value) for other in valid)
        return Choice(best, valid=True, ambiguous=differs)
    return None if best_invalid is None else Choice(best_invalid, valid=False, ambiguous=False)


def _valid_form(reading: Reading, is_valid: Callable[[JsonValue], bool]) -> Reading | None:
    """Return the reading as it is valid: itself, or what is encoded in it when it is a string that is not."""
    value = reading.value
    for _ in range(MAX_UNWRAPPED + 1):
        if is_valid(value):
            return replace(reading, value=value)
        if not isinstance(value, str):
            return None
        try:
            value = decode_whole(value)
        except Inadmissible:
            return None
    return None


def _breaks_off(found: Candidates, choice: Choice) -> bool:
    """Tell whether a value that began behind the chosen one never ended."""
    return found.unfinished_at is not None and found.unfinished_at > choice.reading.start


_PADDING: Final = " \t\r\n\f\v\u00a0\u180e\u200b\u200c\u200d\u2060\u2007\u202f\ufeff"
_SOURCES: Final = {Rank.TAG: Source.TAG, Rank.FENCE: Source.FENCE, Rank.CODE: Source.FENCE}
