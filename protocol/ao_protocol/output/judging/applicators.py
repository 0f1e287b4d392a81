"""The keywords that apply other schemas: which of those refuse the value, and where to look next."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from ao_protocol.output.judging.alternatives import explain_any_of, explain_one_of
from ao_protocol.output.judging.engine import matches
from ao_protocol.output.judging.steps import Site, Steps
from ao_protocol.output.problems import listed, shown


def explain_applicator(site: Site, keyword: str) -> Steps:
    """Yield the problems of a keyword of `APPLICATORS`, and the invalid sites that it leads to."""
    return APPLICATORS[keyword](site)


def _refused(sites: Iterator[Site]) -> Steps:
    return (site for site in sites if not site.accepts())


def _properties(site: Site) -> Steps:
    if isinstance(site.value, dict):
        names = (name for name in site.schema["properties"] if name in site.value)
        yield from _refused(site.member(name, "properties", name) for name in names)


def _pattern_properties(site: Site) -> Steps:
    if isinstance(site.value, dict):
        for pattern in site.schema["patternProperties"]:
            names = (name for name in site.value if matches(pattern, name))
            yield from _refused(site.member(name, "patternProperties", pattern) for name in names)


def _additional_properties(site: Site) -> Steps:
    if not isinstance(site.value, dict):
        return
    declared = site.schema.get("properties", {})
    patterns = site.schema.get("patternProperties", {})
    extra = (
        name for name in site.value if name not in declared and not any(matches(pattern, name) for pattern in patterns)
    )
    if site.schema["additionalProperties"] is not False:
        yield from _refused(site.member(name, "additionalProperties") for name in extra)
        return
    names = sorted(extra)
    if names and patterns:
        verb = "does" if len(names) == 1 else "do"
        yield site.problem(f"{listed(names)} {verb} not match any of the regexes: {listed(sorted(patterns))}")
    elif names:
        verb = "was" if len(names) == 1 else "were"
        yield site.problem(f"Additional properties are not allowed ({listed(names)} {verb} unexpected)")


def _property_names(site: Site) -> Steps:
    if isinstance(site.value, dict):
        yield from _refused(site.name(name, "propertyNames") for name in site.value)


def _dependencies(site: Site) -> Steps:
    if not isinstance(site.value, dict):
        return
    for name, needed in site.schema["dependencies"].items():
        if name not in site.value:
            continue
        if isinstance(needed, list):
            for other in needed:
                if other not in site.value:
                    yield site.problem(f"{shown(other)} is a dependency of {shown(name)}")
        else:
            yield from _refused(iter([site.part("dependencies", name)]))


def _items(site: Site) -> Steps:
    if not isinstance(site.value, list):
        return
    if isinstance(site.schema["items"], list):
        count = min(len(site.value), len(site.schema["items"]))
        yield from _refused(site.member(index, "items", index) for index in range(count))
    else:
        yield from site.refused_items(0, len(site.value), "items")


def _additional_items(site: Site) -> Steps:
    positional = site.schema.get("items")
    if not isinstance(site.value, list) or not isinstance(positional, list):
        return
    rest = range(len(positional), len(site.value))
    if site.schema["additionalItems"] is not False:
        yield from site.refused_items(rest.start, rest.stop, "additionalItems")
    elif rest:
        verb = "was" if len(rest) == 1 else "were"
        extra = listed(site.value[index] for index in rest)
        yield site.problem(f"Additional items are not allowed ({extra} {verb} unexpected)")


def _contains(site: Site) -> Steps:
    if isinstance(site.value, list) and not site.engine.accepts_an_item(site.part("contains").pointer, site.value):
        yield site.problem(f"None of {shown(site.value)} are valid under the given schema")


def _all_of(site: Site) -> Steps:
    return _refused(site.part("allOf", index) for index in range(len(site.schema["allOf"])))


def _not(site: Site) -> Steps:
    if site.part("not").accepts():
        yield site.problem(f"{shown(site.value)} should not be valid under {shown(site.schema['not'])}")


def _if(site: Site) -> Steps:
    consequence = "then" if site.part("if").accepts() else "else"
    if consequence in site.schema:
        yield from _refused(iter([site.part(consequence)]))


APPLICATORS: Final[Mapping[str, Callable[[Site], Steps]]] = MappingProxyType(
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
        "anyOf": explain_any_of,
        "oneOf": explain_one_of,
        "not": _not,
        "if": _if,
    }
)
