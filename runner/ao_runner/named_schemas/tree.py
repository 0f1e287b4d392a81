"""Where a schema holds other schemas, so that what only looks like a keyword is left alone.

A property may be called `$ref`, and a default may look like a schema: neither is one.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from ao_protocol.json_path import ROOT, below

SINGLE: Final = frozenset(
    {"additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"}
)
LISTS: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
MAPS: Final = frozenset({"$defs", "definitions", "dependencies", "patternProperties", "properties"})


def rebuild(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:  # noqa: ANN401  # booleans, too
    """Return a copy of a schema in which every schema object went through `change`, the innermost first."""
    if not isinstance(schema, dict):
        return schema
    return change({keyword: _rebuild_under(keyword, rule, change) for keyword, rule in schema.items()})


def _rebuild_under(keyword: str, rule: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:  # noqa: ANN401
    if keyword in LISTS and isinstance(rule, list):
        return [rebuild(item, change) for item in rule]
    if keyword in MAPS and isinstance(rule, dict):
        return {name: rebuild(member, change) for name, member in rule.items()}
    return rebuild(rule, change) if keyword in SINGLE else rule


def walk(schema: Any, place: str = ROOT) -> Iterator[tuple[str, dict[str, Any]]]:  # noqa: ANN401  # booleans, too
    """Yield every schema object with its place, such as `$.properties.severity`, the outermost first."""
    if not isinstance(schema, dict):
        return
    yield place, schema
    for keyword, rule in schema.items():
        under = below(place, keyword)
        if keyword in LISTS and isinstance(rule, list):
            for index, item in enumerate(rule):
                yield from walk(item, below(under, index))
        elif keyword in MAPS and isinstance(rule, dict):
            for name, member in rule.items():
                yield from walk(member, below(under, name))
        elif keyword in SINGLE:
            yield from walk(rule, under)
