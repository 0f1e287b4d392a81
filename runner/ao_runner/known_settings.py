"""The settings that an executor knows, as its `config_schema` lists them, and those that it does not know."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ao_protocol.documents import Description
from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import is_free, nearest
from ao_runner.errors import RunnerError
from ao_runner.profiles import config_schema_problem


def setting_remarks(config: JsonObject, description: Description, place: str) -> list[str]:
    """Return remarks on the settings that an executor does not know."""
    if config_schema_problem(description) is not None:
        return []
    return unknown_settings(description.config_schema, config, place)


class UnknownSetting(RunnerError):
    """The schema has no such setting."""


@dataclass(frozen=True, slots=True)
class Place:
    """The names on the path to a value, and the schemas that apply to it."""

    names: tuple[str, ...]
    schemas: tuple[Any, ...]

    def takes(self, type_name: str) -> bool:
        """Return whether the value may be of a type of JSON Schema, such as string."""
        given = [schema.get("type") for schema in self.schemas]
        return any(type_name in (types if isinstance(types, list) else [types]) for types in given)

    def lists(self, text: str) -> bool:
        """Return whether a text is one of the values of `enum` or `const`."""
        return any(text in schema.get("enum", ()) or schema.get("const") == text for schema in self.schemas)


def find_place(root: JsonObject, path: str) -> Place:
    """Return the place at a path of names joined by dots. A name may contain dots.

    Raises:
        UnknownSetting: The schema allows no value there.
    """
    parts, names = path.split("."), list[str]()
    schemas = _branches([root], root)
    while parts:
        properties = _properties(schemas)
        count = next((n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in properties), 0)
        name = ".".join(parts[: count or None])
        found = properties[name] if count else _open_ended(schemas, name)
        if not found:
            known = [".".join([*names, each]) for each in properties]
            has = f"It has: {', '.join(known)}" if known else "It has none"
            raise UnknownSetting(f"there is no setting {path!r}{nearest(path, known) or '.'} {has}")
        names.append(name)
        parts = parts[count or len(parts) :]
        schemas = _branches(found, root)
    return Place(tuple(names), tuple(schemas))


def unknown_settings(root: JsonObject, config: JsonObject, place: str = ROOT) -> list[str]:
    """Return a remark on each setting that a schema does not name, at any depth, with a suggestion.

    An object for which the schema names no property and does not forbid others accepts any name.
    """
    return list(_unknown_settings([root], config, root, place))


def _unknown_settings(schemas: Iterable[Any], value: object, root: JsonObject, place: str) -> Iterator[str]:
    schemas = _branches(schemas, root)
    if isinstance(value, list):
        items = [schema["items"] for schema in schemas if "items" in schema]
        for index, item in enumerate(value):
            yield from _unknown_settings(items, item, root, below(place, index))
    if not isinstance(value, dict):
        return
    properties = _properties(schemas)
    is_closed = any("properties" in schema or schema.get("additionalProperties") is False for schema in schemas)
    for name, inner in value.items():
        found = [*properties.get(name, []), *_open_ended(schemas, name)]
        if found:
            yield from _unknown_settings(found, inner, root, below(place, name))
        elif is_closed and not is_free(name):
            yield f"{below(place, name)}: unknown setting{nearest(name, properties)}"


def _branches(schemas: Iterable[Any], root: JsonObject) -> list[Any]:
    """Return the schemas, those that they refer to, and those that they combine."""
    pending, found = list(schemas), list[Any]()
    while pending:
        schema: Any = pending.pop(0)
        if not isinstance(schema, dict) or any(schema is known for known in found):
            continue
        found.append(schema)
        for keyword in ("allOf", "anyOf", "oneOf"):
            pending += schema.get(keyword, [])
        pending += [schema[keyword] for keyword in ("then", "else") if keyword in schema]
        if isinstance(schema.get("$ref"), str):
            pending.append(_referred(schema["$ref"], root))
    return found


def _referred(reference: str, root: JsonObject) -> object:
    target: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        target = target.get(name) if isinstance(target, dict) else None
    return target


def _properties(schemas: Iterable[Any]) -> dict[str, list[Any]]:
    properties: dict[str, list[Any]] = {}
    for schema in schemas:
        for name, described in schema.get("properties", {}).items():
            properties.setdefault(name, []).append(described if isinstance(described, dict) else {})
    return properties


def _open_ended(schemas: Iterable[Any], name: str) -> list[Any]:
    """Return the schemas of a name that is not one of the properties."""
    found: list[Any] = []
    for schema in schemas:
        found += [held for pattern, held in schema.get("patternProperties", {}).items() if re.search(pattern, name)]
        if schema.get("additionalProperties", False) is not False:
            found.append(schema["additionalProperties"])
    return [schema if isinstance(schema, dict) else {} for schema in found if schema is not False]
