"""What a comparison comes upon: differences, and pairs of schemas that are to be compared next."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from ao_protocol.json_path import below
from ao_runner.named_schemas.diff.effects import Context, Effect, Judge
from ao_runner.named_schemas.diff.facts import Part


class Change(StrEnum):
    """What was done at a place."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. `place` is one of the second schema, or of the first where something was removed."""

    place: str
    change: Change
    what: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class Pair:
    """Two schemas to be compared, and where in the whole they stand."""

    old: Part
    new: Part
    context: Context

    def change(self, keyword: str) -> Change:
        """Return what was done to a keyword, if anything was."""
        if keyword not in self.old.rules:
            return Change.ADDED
        return Change.CHANGED if keyword in self.new.rules else Change.REMOVED

    def place(self, keyword: str, *steps: str | int) -> str:
        """Return where a keyword stands, in the second schema if it is there, or a place below it."""
        place = below(self.new.place if keyword in self.new.rules else self.old.place, keyword)
        for step in steps:
            place = below(place, step)
        return place

    def inside(self, *steps: str | int) -> "Pair":
        """Return the schemas at the same place inside both."""
        return Pair(self.old.below(*steps), self.new.below(*steps), self.context)

    def effect(self, judge: Judge, *keywords: str) -> Effect:
        """Return what it does that certain keywords differ."""
        return judge.of_keywords(self.context, self.old, self.new, set(keywords))

    def entry(self, keyword: str, step: str | int, what: str, effect: Effect) -> Difference:
        """Return that something stands below a keyword in one of the two only, or another thing in each."""
        was, now = _has(self.old, keyword, step), _has(self.new, keyword, step)
        place = below(below((self.new if now else self.old).place, keyword), step)
        change = Change.CHANGED if was and now else Change.ADDED if now else Change.REMOVED
        return Difference(place, change, what, effect)


def _has(part: Part, keyword: str, step: str | int) -> bool:
    there = part.rules.get(keyword, ())
    return step in there if isinstance(step, str) else step < len(there)


Step: TypeAlias = Difference | Pair
Steps: TypeAlias = Iterator[Step]
Handler: TypeAlias = Callable[[Pair, Judge, str], Steps]


def from_to(old: str, new: str) -> str:
    """Return that one thing became another."""
    return f"{old} → {new}"
