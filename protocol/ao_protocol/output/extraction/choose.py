"""Choose among the values of a text: the best rank that holds a valid value, and in it the last one."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ao_protocol.output.extraction.decode import Inadmissible, decode_whole
from ao_protocol.output.extraction.limits import MAX_UNWRAPPED
from ao_protocol.output.extraction.mend_tokens import Edit
from ao_protocol.output.extraction.rank import Rank
from ao_protocol.output.extraction.same import is_same_json

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Reading:
    """A value that was read from `start` to `end` of the text, and what was read otherwise than it stands."""

    value: "JsonValue"
    rank: Rank
    start: int
    end: int
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen reading; `ambiguous` when another valid one gives a different value."""

    reading: Reading
    valid: bool
    ambiguous: bool

    @property
    def start(self) -> int:
        """Return where the chosen value begins."""
        return self.reading.start


def choose(readings: Iterable[Reading], is_valid: "Callable[[JsonValue], bool]") -> Choice | None:
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


def _valid_form(reading: Reading, is_valid: "Callable[[JsonValue], bool]") -> Reading | None:
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
