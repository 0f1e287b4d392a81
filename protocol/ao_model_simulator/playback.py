"""Which answer comes next. Pure: requests go in, the script's decision comes out."""

from dataclasses import dataclass

from ao_model_simulator.expectations import find_mismatches, find_missing_fields
from ao_model_simulator.model_request import ModelRequest
from ao_model_simulator.script import Answer, Script


@dataclass(frozen=True, slots=True)
class Answered:
    """The script answers."""

    index: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class Mismatched:
    """The next answer expects something else. It stays the next answer."""

    index: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotInScript:
    """No answer is left, or this is no request for one."""

    problems: tuple[str, ...]


Decision = Answered | Mismatched | NotInScript


class Playback:
    """Play a script: each request takes the next answer, if it holds what the answer expects."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._index = 0
        self._given_of_current = 0
        self._asked = 0
        self.given = 0

    def decide(self, request: ModelRequest) -> Decision:
        """Return what the script says to this request for a model's answer."""
        self._asked += 1
        if missing := find_missing_fields(request):
            return NotInScript(tuple(f"request {self._asked}: {text}" for text in missing))
        if self._index >= len(self._script.answers):
            return NotInScript((self._say_used_up(),))
        index, answer = self._index, self._script.answers[self._index]
        if mismatches := find_mismatches(answer.expect, request):
            where = f"request {self._asked}: answers[{index}].expect"
            return Mismatched(index, tuple(f"{where}.{text}" for text in mismatches))
        self._advance(answer)
        return Answered(index, answer)

    @property
    def left(self) -> int:
        """How many answers were not given; one that repeats forever counts until it was given once."""
        rest = [_times(answer) for answer in self._script.answers[self._index :]]
        return max(0, sum(rest) - self._given_of_current)

    def _advance(self, answer: Answer) -> None:
        self.given += 1
        self._given_of_current += 1
        if answer.repeat != "forever" and self._given_of_current >= answer.repeat:
            self._index += 1
            self._given_of_current = 0

    def _say_used_up(self) -> str:
        total = sum(_times(answer) for answer in self._script.answers)
        noun = "answer" if total == 1 else "answers"
        return f"request {self._asked} is not in the script ({total} {noun})"


def _times(answer: Answer) -> int:
    return 1 if answer.repeat == "forever" else answer.repeat
