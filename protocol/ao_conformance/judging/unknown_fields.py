"""Which fields of a document the specification does not define, at any depth (AOX-016)."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from ao_protocol.published import CURRENT_SCHEMAS, load_schema

COMBINED: Final = ("allOf", "oneOf", "anyOf")
OF_THIS_VERSION: Final = f"urn:ao-executor-protocol:{CURRENT_SCHEMAS}:"


def unknown_fields(document: object, schema: str, part: str | None = None) -> list[str]:
    """Return the paths of the fields that a published schema, or a definition in it, does not name.

    An object for which the schema names no field, or whose names are free, may hold anything.
    """
    whole = _schema(schema)
    wanted = [(schema, whole)] if part is None else [(schema, _without_branches(whole)), (schema, whole["$defs"][part])]
    return list(_unknown(document, wanted, "$"))


def _unknown(value: object, wanted: Sequence[tuple[str, Any]], path: str) -> Iterator[str]:
    schemas = [one for home, schema in wanted for one in _parts(home, schema)]
    if isinstance(value, list):
        items = [(home, schema["items"]) for home, schema in schemas if "items" in schema]
        for index, element in enumerate(value):
            yield from _unknown(element, items, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    free = [(home, schema["additionalProperties"]) for home, schema in schemas if "additionalProperties" in schema]
    names_some = any("properties" in schema for _, schema in schemas)
    for name, field in value.items():
        of_field = [
            (home, schema["properties"][name]) for home, schema in schemas if name in schema.get("properties", {})
        ]
        if of_field or free:
            yield from _unknown(field, of_field or free, f"{path}.{name}")
        elif names_some:
            yield f"{path}.{name}"


def _parts(home: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return a schema, and what it refers to or is combined of, each with the name of the schema that it stands in."""
    yield home, schema
    if "$ref" in schema:
        file, _, place = schema["$ref"].partition("#/$defs/")
        other = file.removeprefix(OF_THIS_VERSION) or home
        yield from _parts(other, _schema(other)["$defs"][place] if place else _schema(other))
    for combined in COMBINED:
        for branch in schema.get(combined, ()):
            yield from _parts(home, branch)


def _without_branches(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: rule for name, rule in schema.items() if name not in COMBINED}


@cache
def _schema(name: str) -> dict[str, Any]:
    return dict(load_schema(name))
