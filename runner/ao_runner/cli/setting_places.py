"""Where a setting stands in an executor's `config_schema`. Pure."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import is_free, nearest
from ao_runner.errors import RunnerError


@dataclass(eq=False)
class UnknownSetting(RunnerError):
    """The schema has no such place; `known` are the names at the last place that it has."""

    path: str
    known: list[str]

    def __str__(self) -> str:
        nearest = get_close_matches(self.path, self.known, 1)
        question = f"; did you mean {nearest[0]!r}?" if nearest else ""
        known = f" It has: {', '.join(self.known)}" if self.known else " It has none"
        return f"there is no setting {self.path!r}{question or '.'}{known}"


@dataclass(frozen=True, slots=True)
class Place:
    """The names that lead to a value, and the schemas that speak of it."""

    names: tuple[str, ...]
    schemas: tuple[JsonObject, ...]

    @property
    def takes_text(self) -> bool:
        """Whether the value may be a text."""
        return "string" in self._types

    @property
    def takes_list(self) -> bool:
        """Whether the value may be a list."""
        return "array" in self._types

    def lists(self, text: str) -> bool:
        """Return whether a text is one of the values that a schema enumerates."""
        return any(text in schema.get("enum", ()) or schema.get("const") == text for schema in _any(self.schemas))

    @property
    def _types(self) -> set[str]:
        types: set[str] = set()
        for schema in _any(self.schemas):
            given = schema.get("type")
            types.update(given if isinstance(given, list) else [given] if isinstance(given, str) else [])
        return types


def find_place(root: JsonObject, path: str) -> Place:
    """Return the place that a path of names joined by dots leads to. A name may hold dots itself.

    Raises:
        UnknownSetting: the schema leaves nothing there.
    """
    parts, names = path.split("."), list[str]()
    schemas = _branches([root], root)
    while parts:
        properties = _properties(schemas)
        count = next((n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in properties), 0)
        if count:
            name, found = ".".join(parts[:count]), properties[".".join(parts[:count])]
        else:
            name, found = ".".join(parts), _open_ended(schemas, ".".join(parts))
            count = len(parts)
            if not found:
                raise UnknownSetting(path, [".".join([*names, known]) for known in properties])
        names.append(name)
        parts = parts[count:]
        schemas = _branches(found, root)
    return Place(tuple(names), tuple(schemas))


def unknown_settings(root: JsonObject, config: JsonObject, place: str = ROOT) -> list[str]:
    """Say which settings a schema does not name, at any depth, and what was perhaps meant.

    An object that the schema leaves open, or of which it names no property, takes any name.
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


def _branches(schemas: Iterable[Any], root: JsonObject) -> list[JsonObject]:
    """Return the schemas, those that they refer to, and those that they combine."""
    pending, found = list(schemas), list[JsonObject]()
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


def _properties(schemas: Iterable[JsonObject]) -> dict[str, list[Any]]:
    properties: dict[str, list[Any]] = {}
    for schema in _any(schemas):
        for name, described in schema.get("properties", {}).items():
            properties.setdefault(name, []).append(described if isinstance(described, dict) else {})
    return properties


def _open_ended(schemas: Iterable[JsonObject], name: str) -> list[Any]:
    """Return the schemas of a name that is not one of the properties."""
    found: list[Any] = []
    for schema in _any(schemas):
        found += [held for pattern, held in schema.get("patternProperties", {}).items() if re.search(pattern, name)]
        if schema.get("additionalProperties", False) is not False:
            found.append(schema["additionalProperties"])
    return [schema if isinstance(schema, dict) else {} for schema in found if schema is not False]


def _any(schemas: Iterable[JsonObject]) -> Iterable[Any]:
    return schemas
