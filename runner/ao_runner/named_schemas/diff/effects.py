"""What a difference between two schemas does to the values that the first one accepts, and where that counts."""

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from ao_runner.named_schemas.diff.demands import meets_dependency
from ao_runner.named_schemas.diff.facts import Facts, Part
from ao_runner.named_schemas.diff.proof import Prover


class Effect(StrEnum):
    """What a difference does to the values that the first schema accepts; the later ones weigh more."""

    ANNOTATION = "annotation"
    """Nothing: it is there for readers."""
    SAME = "same"
    """Nothing: the same is said in another way, or where nobody asks."""
    WIDER = "wider"
    """All are accepted as before, and others may be."""
    UNCLEAR = "unclear"
    """It cannot be told."""
    NARROWER = "narrower"
    """Some may be refused."""

    @property
    def weight(self) -> int:
        """How much it weighs against others at the same place."""
        return list(type(self)).index(self)


class Direction(StrEnum):
    """What it means for the whole that a part accepts more."""

    STRAIGHT = "straight"
    """The whole accepts more, too."""
    INVERSE = "inverse"
    """The whole accepts less: the part stands under `not`."""
    EITHER = "either"
    """It depends: the part is a condition, or one of the alternatives of which exactly one may fit."""
    NONE = "none"
    """Nothing: nobody refers to the part."""


_INVERTED: Final = {Direction.STRAIGHT: Direction.INVERSE, Direction.INVERSE: Direction.STRAIGHT}
_TOLD: Final = frozenset(
    {"const", "enum", "maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties", "multipleOf"}
    | {"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "required", "type", "uniqueItems"}
)
"""Keywords of which it can be told that another rule refuses more, and not only that nothing is known."""


@dataclass(frozen=True, slots=True)
class Context:
    """Where in the whole two parts stand."""

    direction: Direction = Direction.STRAIGHT
    is_covered: bool = False
    """Whether everything around accepts what it did, so that nothing in it can refuse more."""

    @classmethod
    def unused(cls) -> "Context":
        """Return the context of what is there and counts for nothing by itself."""
        return cls(Direction.NONE)

    def inverted(self) -> "Context":
        """Return the context below `not`."""
        return replace(self, direction=_INVERTED.get(self.direction, self.direction))

    def uncertain(self) -> "Context":
        """Return the context below what counts in both ways."""
        return self if self.direction is Direction.NONE else replace(self, direction=Direction.EITHER)


class Judge:
    """Says what differences do. `forth` asks whether what was accepted still is, `back` asks the reverse."""

    def __init__(self) -> None:
        self._prover = Prover()

    def verdict(self, old: Part, new: Part) -> Effect | None:
        """Return what the whole of a difference comes to, or None where that cannot be proven."""
        if not self._prover.holds([old], new):
            return None
        return Effect.SAME if self._prover.holds([new], old) else Effect.WIDER

    def inside(self, old: Part, new: Part, context: Context) -> Context:
        """Return the context of what stands inside two parts."""
        if context.is_covered or context.direction in {Direction.EITHER, Direction.NONE}:
            return context
        first, second = (old, new) if context.direction is Direction.STRAIGHT else (new, old)
        return replace(context, is_covered=self._prover.holds([first], second))

    def of_whole(self, context: Context, old: Part, new: Part) -> Effect:
        """Say what it does that one schema takes the place of another."""
        forth, back = self._prover.holds([old], new), self._prover.holds([new], old)
        return weigh(context, forth=forth, back=back, is_told=True)

    def of_values(self, context: Context, old: Part, new: Part, values: Iterable[object]) -> Effect:
        """Say what it does that values are named by one of the schemas only."""
        verdicts = {(old.accepts(value), new.accepts(value)) for value in values}
        return weigh(context, forth=(True, False) not in verdicts, back=(False, True) not in verdicts, is_told=True)

    def of_required(self, context: Context, old: Part, new: Part, name: str) -> Effect:
        """Say what it does that a member must be there for one of the schemas only."""
        before, after = name in Facts([old]).required, name in Facts([new]).required
        return weigh(context, forth=before or not after, back=after or not before, is_told=True)

    def of_keywords(self, context: Context, old: Part, new: Part, keywords: Set[str]) -> Effect:
        """Say what it does that keywords differ."""
        forth = all(self._prover.meets(Facts([old]), new, keyword) for keyword in keywords & new.rules.keys())
        back = all(self._prover.meets(Facts([new]), old, keyword) for keyword in keywords & old.rules.keys())
        return weigh(context, forth=forth, back=back, is_told=keywords <= _TOLD)

    def of_member(self, context: Context, old: Part, new: Part, name: str) -> Effect:
        """Say what it does that one schema speaks of a member by name and the other does not."""
        before, after = Facts([old]).member(name), Facts([new]).member(name)
        forth = all(self._prover.holds(before, demand) for demand in after)
        back = all(self._prover.holds(after, demand) for demand in before)
        return weigh(context, forth=forth, back=back, is_told=False)

    def of_dependency(self, context: Context, old: Part, new: Part, name: str) -> Effect:
        """Say what it does that the presence of a member demands something else."""

        def keeps(one: Part, other: Part) -> bool:
            demands = other.rules.get("dependencies", {})
            return name not in demands or meets_dependency(self._prover, Facts([one]), other, name)

        return weigh(context, forth=keeps(old, new), back=keeps(new, old), is_told=False)

    def of_more(self, context: Context, known: Iterable[Part], demand: Part) -> Effect:
        """Say what it does that more is demanded where something is known already."""
        return weigh(context, forth=self._prover.holds(known, demand), back=True, is_told=True)

    def of_less(self, context: Context, known: Iterable[Part], demand: Part) -> Effect:
        """Say what it does that something is not demanded any more, where `known` is still demanded."""
        return weigh(context, forth=True, back=self._prover.holds(known, demand), is_told=True)

    def are_equal(self, old: Part, new: Part) -> bool:
        """Tell whether two parts surely accept the same."""
        return self._prover.are_equal(old, new)


def weigh(context: Context, *, forth: bool, back: bool, is_told: bool) -> Effect:
    """Say what a difference does, where it was proven or not that all that was accepted still is, and the reverse.

    `is_told` says that no proof means that there are values to the contrary.
    """
    match context.direction:
        case Direction.NONE:
            return Effect.SAME
        case Direction.INVERSE:
            forth, back = back, forth
        case Direction.EITHER if not (forth and back):
            forth = back = is_told = False
    if forth:
        return Effect.SAME if back else Effect.WIDER
    if context.is_covered:
        return Effect.SAME
    return Effect.NARROWER if back or is_told else Effect.UNCLEAR
