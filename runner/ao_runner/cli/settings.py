"""The executor's configuration on the command line: `--set K=V`, and short forms for settings that many have."""

import os
from collections.abc import Iterator
from typing import Any, Final, TypedDict

import click

from ao_protocol.wire import JsonObject
from ao_runner.cli.options import Command
from ao_runner.discovery.locate import Executor
from ao_runner.profiles import Profile

_OPTIONS: Final = {"model": "--model", "permission_mode": "--permission-mode", "allowed_tools": "--allow"}


class SettingOptions(TypedDict):
    """What the command line says of the executor's configuration."""

    model: str | None
    permission_mode: str | None
    allowed_tools: tuple[str, ...]
    settings: tuple[str, ...]


def setting_options(command: Command) -> Command:
    """Add the options of `SettingOptions`."""
    for decorate in (
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="K=V",
            help="Set K of the executor's configuration. V is JSON or text, as the executor's schema says; dots lead "
            "into K. Repeatable.",
        ),
        click.option(
            "--permission-mode", metavar="MODE", help="What the agent may do unasked: permission_mode of the executor."
        ),
        click.option(
            "--allow",
            "allowed_tools",
            multiple=True,
            metavar="RULE",
            help="Allow a tool, or a rule such as 'Bash(git *)': adds to allowed_tools of the executor. Repeatable.",
        ),
        click.option("--model", metavar="NAME", help="Model to use: model of the executor."),
    ):
        command = decorate(command)
    return command


def with_settings(config: JsonObject, options: SettingOptions, profile: Profile, executor: Executor) -> JsonObject:
    """Return a configuration with what the options set. What they go into, the profile's included, is kept.

    Raises:
        click.UsageError: the executor has no such setting, or does not take the value.
        DescribeFailed: the executor does not say what it has.
    """
    if all(given in (None, ()) for given in (options["settings"], *_short_forms(options).values())):
        return config
    from ao_protocol.contracts import validate
    from ao_runner.discovery.describe import describe_executor
    from ao_runner.profiles import config_schema_problem
    from ao_runner.runs.environment import bare_environment

    description = describe_executor(executor, bare_environment(os.environ))
    unusable = config_schema_problem(description)
    if unusable is not None:
        raise click.UsageError(unusable)
    changed: Any = {**profile.config, **config}
    touched = set()
    for names, value in _assignments(options, description.config_schema, executor):
        touched.add(names[0])
        changed = _assigned(changed, names, value)
    problems = validate(changed, description.config_schema)
    if problems:
        listed = "; ".join(f"{problem.path.removeprefix('$.')}: {problem.message}" for problem in problems)
        raise click.UsageError(f"The configuration does not fit the executor {executor.name}: {listed}")
    return {**config, **{name: changed[name] for name in touched}}


def _assignments(
    options: SettingOptions, schema: JsonObject, executor: Executor
) -> Iterator[tuple[tuple[str, ...], Any]]:
    properties: Any = schema.get("properties", {})
    for name, given in _short_forms(options).items():
        if given in (None, ()):
            continue
        if name not in properties:
            raise click.UsageError(
                f"{_OPTIONS[name]} sets {name}, and the executor {executor.name} has no such setting; "
                f"`{executor.path} describe` shows those that it has"
            )
        yield (name,), given
    for pair in options["settings"]:
        yield _parsed(pair, schema, executor.name)


def _short_forms(options: SettingOptions) -> dict[str, str | tuple[str, ...] | None]:
    """Return what the short forms give, by the name of the setting."""
    return {name: options[name] for name in ("model", "permission_mode", "allowed_tools")}


def _parsed(pair: str, schema: JsonObject, executor: str) -> tuple[tuple[str, ...], Any]:
    from ao_runner.blueprints.written_json import NotInteroperable, parse_json
    from ao_runner.cli.setting_places import UnknownSetting, find_place

    path, equals, text = pair.partition("=")
    if not equals or not path:
        raise click.BadParameter(f"{pair!r} is not K=V", param_hint="--set")
    try:
        place = find_place(schema, path)
    except UnknownSetting as error:
        raise click.BadParameter(f"executor {executor}: {error}", param_hint="--set") from error
    if place.takes_text or place.lists(text):
        return place.names, text
    try:
        return place.names, parse_json(text)
    except NotInteroperable as error:
        if place.takes_list:
            hint = f'{path} is a list, written as JSON, such as \'["a", "b"]\'; {text[:80]!r} is not: {error}'
            raise click.BadParameter(hint, param_hint="--set") from error
        return place.names, text


def _assigned(holder: Any, names: tuple[str, ...], value: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return a document with a value put in; a tuple of items is added to the list that is there."""
    if not names:
        if not isinstance(value, tuple):
            return value
        held = holder if isinstance(holder, list) else []
        return [*held, *(item for item in dict.fromkeys(value) if item not in held)]
    inside = holder if isinstance(holder, dict) else {}
    return {**inside, names[0]: _assigned(inside.get(names[0]), names[1:], value)}
