"""Whether one schema surely accepts whatever another one accepts.

A proof is a proof; no proof says nothing. Each keyword of the demanding schema is looked for in what is known of the
value, if need be case by case. Recursive schemas are compared by assuming what is being proven: every way back leads
through a member or an item, and values end.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, TypeAlias

from ao_runner.named_schemas.diff.demands import DEMANDS
from ao_runner.named_schemas.diff.facts import ALL_TYPES, Document, Facts, Part
from ao_runner.named_schemas.diff.plain_demands import PLAIN_DEMANDS

MAX_COMPARISONS: Final = 30_000
"""What is not proven by then is not proven."""
MAX_CLAIMS_WITHIN_CLAIMS: Final = 50
"""Each takes up to a dozen calls within calls, of which Python allows a thousand."""
MAX_CASES_WITHIN_CASES: Final = 2

JUDGING: Final = PLAIN_DEMANDS.keys() | DEMANDS.keys()
"""The keywords that can refuse a value; `then` and `else` do it by their `if`."""

_NUMBERS: Final = frozenset({"fraction", "integer"})
_CONCERNED: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"), _NUMBERS)
    | dict.fromkeys(("format", "maxLength", "minLength", "pattern"), frozenset({"string"}))
    | dict.fromkeys(
        ("additionalItems", "contains", "items", "maxItems", "minItems", "uniqueItems"), frozenset({"array"})
    )
    | dict.fromkeys(("additionalProperties", "dependencies", "maxProperties", "minProperties"), frozenset({"object"}))
    | dict.fromkeys(("patternProperties", "properties", "propertyNames", "required"), frozenset({"object"}))
)
"""Of which types a keyword speaks, where it does not speak of all."""

_Claim: TypeAlias = tuple[frozenset[Part], Part]


class Prover:
    """Proves that the values of some schemas are values of another, and remembers what it proved."""

    def __init__(self) -> None:
        self._proven: dict[_Claim, None] = {}
        self._refuted: set[_Claim] = set()
        self._comparisons = 0
        self._depth = 0

    def holds(self, parts: Iterable[Part], demand: Part) -> bool:
        """Tell whether every value that all the parts accept is surely accepted by `demand`."""
        if not demand.rules:
            return True
        if self._is_tired() or self._depth == MAX_CLAIMS_WITHIN_CLAIMS:
            return False
        facts = Facts(parts)
        if demand in facts.parts or facts.is_never:
            return True
        claim = (frozenset(facts.parts), demand)
        if claim in self._proven or claim in self._refuted:
            return claim in self._proven
        self._proven[claim] = None
        self._depth += 1
        if facts.values is not None:
            is_true = all(demand.accepts(value) for value in facts.values)
        else:
            is_true = all(self.meets(facts, demand, keyword) for keyword in demand.rules)
        self._depth -= 1
        if not is_true:
            # What was proven since may rest on this claim.
            while self._proven.popitem()[0] != claim:
                pass
            self._refuted.add(claim)
        return is_true

    def are_equal(self, one: Part, other: Part) -> bool:
        """Tell whether two schemas surely accept the same values."""
        return self.holds([one], other) and self.holds([other], one)

    def meets(
        self, facts: Facts, demand: Part, keyword: str, opened: frozenset[tuple[Part | None, str]] = frozenset()
    ) -> bool:
        """Tell whether every value of which these facts are known surely satisfies one keyword of `demand`."""
        if facts.is_never or not facts.types & _CONCERNED.get(keyword, ALL_TYPES):
            return True
        if facts.values is not None and keyword in PLAIN_DEMANDS:
            engine, rule = demand.document.engine, demand.rules[keyword]
            return all(engine.keyword_accepts(demand.pointer, keyword, rule, value) for value in facts.values)
        if self._is_met(facts, demand, keyword):
            return True
        if len(opened) == MAX_CASES_WITHIN_CASES or self._is_tired():
            return False
        return any(
            all(self.meets(Facts([*facts.parts, case]), demand, keyword, opened | {door}) for case in cases)
            for door, cases in _cases(facts)
            if door not in opened
        )

    def _is_met(self, facts: Facts, demand: Part, keyword: str) -> bool:
        if keyword in PLAIN_DEMANDS:
            return PLAIN_DEMANDS[keyword](facts, demand)
        # Any other keyword refuses nothing.
        return keyword not in DEMANDS or DEMANDS[keyword](self, facts, demand)

    def _is_tired(self) -> bool:
        self._comparisons += 1
        return self._comparisons > MAX_COMPARISONS


def _cases(facts: Facts) -> Iterator[tuple[tuple[Part | None, str], Iterable[Part]]]:
    """Yield the ways to tell cases apart, one of which is true of every such value: by alternatives, and by type."""
    for part in facts.parts:
        for keyword in ("anyOf", "oneOf"):
            if keyword in part.rules:
                yield (part, keyword), (part.below(keyword, index) for index in range(len(part.rules[keyword])))
    if 1 < len(facts.types) < len(ALL_TYPES):
        names = {"number" if name == "fraction" else name for name in facts.types}
        yield (None, "type"), map(_of_type, sorted(names))


@lru_cache(maxsize=len(ALL_TYPES))
def _of_type(name: str) -> Part:
    return Document({"type": name}).part()
