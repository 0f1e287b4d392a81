"""When what is known of a value is enough for a keyword that speaks of the value alone and needs no other schema."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from ao_protocol.output.judging.formats import DRAFT_7_FORMATS
from ao_runner.named_schemas.diff.facts import Facts, Part, exact, types_of

PlainCheck: TypeAlias = Callable[[Facts, Part], bool]


def _type(facts: Facts, demand: Part) -> bool:
    return facts.types <= types_of(demand.rules["type"])


def _listed(_facts: Facts, _demand: Part) -> bool:
    return False  # where the values can be counted, they were asked before


def _minimum(facts: Facts, demand: Part) -> bool:
    return facts.lowest[0] >= exact(demand.rules["minimum"])


def _exclusive_minimum(facts: Facts, demand: Part) -> bool:
    return facts.lowest > (exact(demand.rules["exclusiveMinimum"]), False)


def _maximum(facts: Facts, demand: Part) -> bool:
    return facts.highest[0] <= exact(demand.rules["maximum"])


def _exclusive_maximum(facts: Facts, demand: Part) -> bool:
    number, is_open = facts.highest
    bound = exact(demand.rules["exclusiveMaximum"])
    return number < bound or (number == bound and is_open)


def _multiple_of(facts: Facts, demand: Part) -> bool:
    step = exact(demand.rules["multipleOf"])
    return any((known / step).denominator == 1 for known in facts.steps())


def _at_least(keyword: str) -> PlainCheck:
    def check(facts: Facts, demand: Part) -> bool:
        return bool(facts.at_least(keyword) >= demand.rules[keyword])

    return check


def _at_most(keyword: str) -> PlainCheck:
    def check(facts: Facts, demand: Part) -> bool:
        return bool(facts.at_most(keyword) <= demand.rules[keyword])

    return check


def _pattern(facts: Facts, demand: Part) -> bool:
    return demand.rules["pattern"] in facts.all_of("pattern")


def _format(facts: Facts, demand: Part) -> bool:
    wanted = demand.rules["format"]
    return wanted not in DRAFT_7_FORMATS or wanted in facts.all_of("format")


def _unique_items(facts: Facts, demand: Part) -> bool:
    return not demand.rules["uniqueItems"] or any(facts.all_of("uniqueItems")) or facts.at_most("maxItems") <= 1


def _required(facts: Facts, demand: Part) -> bool:
    return facts.required.issuperset(demand.rules["required"])


def _min_properties(facts: Facts, demand: Part) -> bool:
    known = max(facts.at_least("minProperties"), len(facts.required))
    return bool(known >= demand.rules["minProperties"])


def _max_properties(facts: Facts, demand: Part) -> bool:
    known = min([facts.at_most("maxProperties"), *map(len, facts.closed_names())])
    return bool(known <= demand.rules["maxProperties"])


PLAIN_DEMANDS: Final[Mapping[str, PlainCheck]] = MappingProxyType(
    {
        "const": _listed,
        "enum": _listed,
        "exclusiveMaximum": _exclusive_maximum,
        "exclusiveMinimum": _exclusive_minimum,
        "maxItems": _at_most("maxItems"),
        "maxLength": _at_most("maxLength"),
        "maxProperties": _max_properties,
        "maximum": _maximum,
        "minItems": _at_least("minItems"),
        "minLength": _at_least("minLength"),
        "minProperties": _min_properties,
        "minimum": _minimum,
        "multipleOf": _multiple_of,
        "format": _format,
        "pattern": _pattern,
        "required": _required,
        "type": _type,
        "uniqueItems": _unique_items,
    }
)
