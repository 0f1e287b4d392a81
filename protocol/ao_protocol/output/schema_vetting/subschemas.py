"""Where a Draft-7 schema holds other schemas, and what each is applied to. Nothing here recurses."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, TypeAlias


class Reach(Enum):
    """What a subschema is applied to, seen from the value that its parent judges."""

    SAME_VALUE = "the value itself"
    ANY_MEMBER = "members that no name picks"
    ANY_ITEM = "items of an array"
    NOTHING = "nothing until somebody refers to it"


@dataclass(frozen=True, slots=True)
class Member:
    """Applied to the member of this name, or the item of this index, and to no other."""

    key: str | int


Applied: TypeAlias = Reach | Member


@dataclass(frozen=True, slots=True)
class Subschema:
    """A schema inside another: the steps that lead to it, and what it is applied to."""

    steps: tuple[str | int, ...]
    schema: Any
    applied: Applied


_SINGLE: Final = MappingProxyType(
    {
        "not": Reach.SAME_VALUE,
        "if": Reach.SAME_VALUE,
        "then": Reach.SAME_VALUE,
        "else": Reach.SAME_VALUE,
        "additionalProperties": Reach.ANY_MEMBER,
        "propertyNames": Reach.ANY_MEMBER,
        "additionalItems": Reach.ANY_ITEM,
        "contains": Reach.ANY_ITEM,
    }
)
_LISTS: Final = MappingProxyType(
    {"allOf": Reach.SAME_VALUE, "anyOf": Reach.SAME_VALUE, "oneOf": Reach.SAME_VALUE, "items": None}
)
_MAPS: Final = MappingProxyType(
    {
        "properties": None,
        "patternProperties": Reach.ANY_MEMBER,
        "dependencies": Reach.SAME_VALUE,
        "definitions": Reach.NOTHING,
    }
)


def subschemas(schema: dict[str, Any]) -> Iterator[Subschema]:
    """Yield the schemas directly inside a schema that satisfies the metaschema, in the order of its keywords.

    Beside a `$ref` Draft-7 ignores every keyword; what stands there can still be referred to.
    """
    for keyword in schema:
        for subschema in _under(schema, keyword):
            if isinstance(subschema.schema, dict | bool):
                yield subschema


def _under(schema: dict[str, Any], keyword: str) -> Iterator[Subschema]:
    rule = schema[keyword]
    if keyword in _SINGLE or (keyword == "items" and not isinstance(rule, list)):
        yield Subschema((keyword,), rule, _SINGLE.get(keyword, Reach.ANY_ITEM))
    elif keyword in _MAPS:
        for name, member in rule.items():
            yield Subschema((keyword, name), member, _MAPS[keyword] or Member(name))
    elif keyword in _LISTS:
        for index, item in enumerate(rule):
            yield Subschema((keyword, index), item, _LISTS[keyword] or Member(index))
