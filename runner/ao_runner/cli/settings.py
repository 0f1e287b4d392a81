"""The executor's configuration on the command line: `--set K=V`, its short forms, and unknown settings."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ao_protocol.common_settings import declared_settings, no_setting
from ao_protocol.documents import Description
from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import JsonObject
from ao_protocol.written import NotInteroperable, parse_json
from ao_runner.blueprints.loading import is_free, nearest
from ao_runner.cli.options import SETTING_OPTIONS, RunArguments, split_pair
from ao_runner.cli.printing import show_remarks
from ao_runner.discovery import DescribeFailed, ExecutorNotFound, describe_executor, locate_executor
from ao_runner.errors import RunnerError
from ao_runner.profiles import Profile, config_schema_problem
from ao_runner.runs.run_request import bare_environment


class SettingRefused(RunnerError):
    """The executor has no such setting. The run is refused, as with an invalid configuration in a file."""

    exit_code = 64


def with_settings(config: JsonObject, given: RunArguments, profile: Profile) -> JsonObject:
    """Return the configuration with the values of the options. Lists and objects of the profile are extended.

    The values are validated with the run, like those from files.

    Raises:
        SettingRefused: The executor has no such setting, its `config_schema` is unusable, or a value is not valid JSON.
        DescribeFailed: The executor does not describe itself.
    """
    description = describe_executor(locate_executor(profile.executor), bare_environment(os.environ))
    if (unusable := config_schema_problem(description)) is not None:
        raise SettingRefused(unusable)
    changed: Any = {**profile.settings, **config}
    touched = set()
    for names, value in _assignments(given, description):
        touched.add(names[0])
        changed = _assigned(changed, names, value)
    return {**config, **{name: changed[name] for name in touched}}


def _assignments(given: RunArguments, description: Description) -> Iterator[tuple[tuple[str, ...], Any]]:
    known = declared_settings(description)
    for name, option in SETTING_OPTIONS.items():
        if (value := given.get(name)) in (None, ()):
            continue
        if name not in known:
            raise SettingRefused(f"{option}: {no_setting(name, description)}")
        yield (name,), value
    for pair in given["settings"]:
        yield _parsed(pair, description.config_schema, description.executor.name)


def _parsed(pair: str, schema: JsonObject, executor: str) -> tuple[tuple[str, ...], Any]:
    path, text = split_pair(pair, "--set")
    try:
        place = find_place(schema, path)
    except UnknownSetting as error:
        raise SettingRefused(f"--set: executor {executor}: {error}") from error
    if place.takes("string") or place.lists(text):
        return place.names, text
    try:
        return place.names, parse_json(text)
    except NotInteroperable as error:
        if place.takes("array"):
            hint = f'{path} is a list, written as JSON, such as \'["a", "b"]\'; {text[:80]!r} is not: {error}'
            raise SettingRefused(f"--set: {hint}") from error
        return place.names, text


def _assigned(holder: Any, names: tuple[str, ...], value: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return a document with a value at a path of names. The items of a tuple are added to an existing list."""
    if not names:
        if not isinstance(value, tuple):
            return value
        held = holder if isinstance(holder, list) else []
        return [*held, *(item for item in dict.fromkeys(value) if item not in held)]
    inside = holder if isinstance(holder, dict) else {}
    return {**inside, names[0]: _assigned(inside.get(names[0]), names[1:], value)}


def show_unknown_settings(profile: Profile, config: JsonObject, config_file: Path | None) -> None:
    """Report the settings of a profile and of a file that the executor does not know.

    Without settings the executor is not started. If it does not describe itself, nothing is reported: the run fails.
    """
    if not (profile.config or config):
        return
    try:
        description = describe_executor(locate_executor(profile.executor), bare_environment(os.environ))
    except (ExecutorNotFound, DescribeFailed, OSError):
        return
    show_remarks(profile.name, setting_remarks(profile.config, description, "$.config"))
    show_remarks(str(config_file), setting_remarks(config, description, ROOT))


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
