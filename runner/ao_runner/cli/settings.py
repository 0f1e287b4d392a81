"""The executor's configuration on the command line: `--set K=V`, its short forms, and unknown settings."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ao_protocol.common_settings import declared_settings, no_setting
from ao_protocol.documents import Description
from ao_protocol.json_path import ROOT
from ao_protocol.wire import JsonObject
from ao_protocol.written import NotInteroperable, parse_json
from ao_runner.cli.options import SETTING_OPTIONS, RunArguments, split_pair
from ao_runner.cli.printing import show_remarks
from ao_runner.discovery import DescribeFailed, ExecutorNotFound, describe_executor, locate_executor
from ao_runner.errors import RunnerError
from ao_runner.known_settings import UnknownSetting, find_place, setting_remarks
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
