"""When what is known of a value is enough for a keyword that holds other schemas."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from ao_protocol.output.judging.engine import matches
from ao_runner.named_schemas.diff.facts import Facts, Part


class Proving(Protocol):
    """Whoever proves what is demanded of members, items and alternatives."""

    def holds(self, parts: Iterable[Part], demand: Part) -> bool:
        """Tell whether every value that all the parts accept is surely accepted by `demand`."""

    def are_equal(self, one: Part, other: Part) -> bool:
        """Tell whether two schemas surely accept the same values."""


MAX_TOLD_APART: Final = 100
"""Alternatives that are compared each with each."""

Check: TypeAlias = Callable[[Proving, Facts, Part], bool]


def _properties(prover: Proving, facts: Facts, demand: Part) -> bool:
    return all(
        prover.holds(facts.member(name), demand.below("properties", name)) for name in demand.rules["properties"]
    )


def _pattern_properties(prover: Proving, facts: Facts, demand: Part) -> bool:
    return all(
        prover.holds(members, demand.below("patternProperties", pattern))
        for pattern in demand.rules["patternProperties"]
        for members in _matching(facts, pattern)
    )


def _matching(facts: Facts, pattern: str) -> Iterator[list[Part]]:
    """Yield what is known of each kind of member whose name matches a pattern."""
    yield from (facts.member(name) for name in facts.names if matches(pattern, name))
    unnamed: list[Part] = []
    for part in facts.parts:
        patterns = part.rules.get("patternProperties", {})
        if pattern in patterns:
            unnamed.append(part.below("patternProperties", pattern))
        elif not patterns and "additionalProperties" in part.rules:
            unnamed.append(part.below("additionalProperties"))
    yield unnamed


def _additional_properties(prover: Proving, facts: Facts, demand: Part) -> bool:
    named, patterns = demand.rules.get("properties", {}), demand.rules.get("patternProperties", {})
    kinds = [
        facts.member(name)
        for name in facts.names
        if name not in named and not any(matches(pattern, name) for pattern in patterns)
    ]
    for part in facts.parts:
        others = (pattern for pattern in part.rules.get("patternProperties", {}) if pattern not in patterns)
        kinds += [[part.below("patternProperties", pattern)] for pattern in others]
    kinds.append(facts.below_all("additionalProperties"))
    return all(prover.holds(kind, demand.below("additionalProperties")) for kind in kinds)


def _property_names(prover: Proving, facts: Facts, demand: Part) -> bool:
    names = demand.below("propertyNames")
    if any(all(map(names.accepts, closed)) for closed in facts.closed_names()):
        return True
    return prover.holds(facts.below_all("propertyNames"), names)


def _dependencies(prover: Proving, facts: Facts, demand: Part) -> bool:
    return all(meets_dependency(prover, facts, demand, name) for name in demand.rules["dependencies"])


def meets_dependency(prover: Proving, facts: Facts, demand: Part, name: str) -> bool:
    """Tell whether every value satisfies what the presence of a member demands."""
    if any(part.schema is False for part in facts.member(name)):
        return True
    known = [part for part in facts.parts if name in part.rules.get("dependencies", {})]
    schemas = [part.below("dependencies", name) for part in known if not _is_list(part, name)]
    if _is_list(demand, name):
        lists = [part.rules["dependencies"][name] for part in known if _is_list(part, name)]
        there = {name, *facts.required, *(other for others in lists for other in others)}
        return bool(there.issuperset(demand.rules["dependencies"][name]))
    return prover.holds([*facts.parts, *schemas], demand.below("dependencies", name))


def _is_list(part: Part, name: str) -> bool:
    return isinstance(part.rules["dependencies"][name], list)


def _items(prover: Proving, facts: Facts, demand: Part) -> bool:
    items = demand.rules["items"]
    if isinstance(items, list):
        return all(_item(prover, facts, index, demand.below("items", index)) for index in range(len(items)))
    return all(_item(prover, facts, index, demand.below("items")) for index in range(facts.positions + 1))


def _additional_items(prover: Proving, facts: Facts, demand: Part) -> bool:
    items = demand.rules.get("items")
    if not isinstance(items, list):
        return True
    following = range(len(items), max(len(items), facts.positions) + 1)
    return all(_item(prover, facts, index, demand.below("additionalItems")) for index in following)


def _item(prover: Proving, facts: Facts, index: int, demand: Part) -> bool:
    return facts.at_most("maxItems") <= index or prover.holds(facts.item(index), demand)


def _contains(prover: Proving, facts: Facts, demand: Part) -> bool:
    wanted = demand.below("contains")
    if any(prover.holds([known], wanted) for known in facts.below_all("contains")):
        return True
    return facts.at_least("minItems") >= 1 and prover.holds(facts.item(0), wanted)


def _all_of(prover: Proving, facts: Facts, demand: Part) -> bool:
    return all(prover.holds(facts.parts, part) for part in alternatives(demand, "allOf"))


def _any_of(prover: Proving, facts: Facts, demand: Part) -> bool:
    return any(prover.holds(facts.parts, part) for part in alternatives(demand, "anyOf"))


def _one_of(prover: Proving, facts: Facts, demand: Part) -> bool:
    wanted = alternatives(demand, "oneOf")
    if exclude_each_other(wanted):
        return any(prover.holds(facts.parts, part) for part in wanted)
    return any(_are_the_same(prover, alternatives(part, "oneOf"), wanted) for part in facts.parts)


def _are_the_same(prover: Proving, some: Iterable[Part], others: Iterable[Part]) -> bool:
    remaining = list(some)
    for wanted in others:
        equal = next((part for part in remaining if prover.are_equal(part, wanted)), None)
        if equal is None:
            return False
        remaining.remove(equal)
    return not remaining


def alternatives(part: Part, keyword: str) -> tuple[Part, ...]:
    """Return the schemas that stand in a list under a keyword."""
    return tuple(part.below(keyword, index) for index in range(len(part.rules.get(keyword, []))))


@lru_cache(maxsize=64)
def exclude_each_other(parts: tuple[Part, ...]) -> bool:
    """Tell whether surely no value is accepted by two of the schemas: by type, or by a member that tells them apart."""
    return len(parts) <= MAX_TOLD_APART and all(Facts(pair).is_never for pair in combinations(parts, 2))


def _not(prover: Proving, facts: Facts, demand: Part) -> bool:
    refused = demand.below("not")
    if any(prover.holds([refused], known) for known in facts.below_all("not")):
        return True
    return Facts([*facts.parts, refused]).is_never


def _if(prover: Proving, facts: Facts, demand: Part) -> bool:
    condition = demand.below("if")
    known = [part for part in facts.parts if "if" in part.rules and prover.are_equal(part.below("if"), condition)]

    def follows(keyword: str, parts: Iterable[Part]) -> bool:
        if keyword not in demand.rules:
            return True
        consequences = [part.below(keyword) for part in known if keyword in part.rules]
        return prover.holds([*facts.parts, *parts, *consequences], demand.below(keyword))

    return follows("then", [condition]) and follows("else", [])


DEMANDS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "properties": _properties,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "propertyNames": _property_names,
        "dependencies": _dependencies,
        "items": _items,
        "additionalItems": _additional_items,
        "contains": _contains,
        "allOf": _all_of,
        "anyOf": _any_of,
        "oneOf": _one_of,
        "not": _not,
        "if": _if,
    }
)
"""`then` and `else` are looked at with their `if`."""
