"""What a person types, as the parameters of a run."""

import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypedDict

import click
from pydantic import JsonValue

from ao_protocol.documents import Blueprint
from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import load_object
from ao_runner.blueprints.written import NotInteroperable, parse_json
from ao_runner.cli.options import EXISTING_FILE, Command, split_pair
from ao_runner.cli.printing import show_remarks

STDIN: Final = "-"
MISSING_PROMPT: Final = "Missing prompt: use -p TEXT, or pipe it in."
_PARAM_HELP: Final = "Set parameter K. V is a string, or JSON if `parameters_schema` gives K another type. Repeatable."


class AgentOptions(TypedDict):
    """What `run` and `submit` have in common: what is asked of an agent, how it is configured, where it works."""

    prompt: str | None
    pairs: tuple[str, ...]
    params_file: Path | None
    config_file: Path | None
    project_dir: Path


def prompt_option(command: Command) -> Command:
    """Add `--prompt`."""
    return click.option(
        "-p", "--prompt", help="Prompt; - reads it from stdin. If omitted, text piped to stdin is the prompt."
    )(command)


def _in_utf8(_context: click.Context, _option: click.Parameter, folder: Path) -> Path:
    """Refuse a path that no line of the protocol can hold (SPEC 3)."""
    if any("\ud800" <= character <= "\udfff" for character in str(folder)):
        raise click.BadParameter(f"{str(folder)!r} is not UTF-8, and the protocol's lines are; rename the folder")
    return folder


def agent_options(command: Command) -> Command:
    """Add the options of `AgentOptions`."""
    for decorate in (
        click.option(
            "--project-dir",
            type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
            default=".",
            show_default="here",
            callback=_in_utf8,
            help="Folder that the agent works in.",
        ),
        click.option(
            "--config", "config_file", type=EXISTING_FILE, help="JSON or YAML file with the executor's configuration."
        ),
        click.option("--params", "params_file", type=EXISTING_FILE, help="JSON or YAML file with parameters."),
        click.option("--param", "pairs", multiple=True, metavar="K=V", help=_PARAM_HELP),
        prompt_option,
    ):
        command = decorate(command)
    return command


def collect_parameters(blueprint: Blueprint, prompt: str | None, pairs: Iterable[str], file: Path | None) -> JsonObject:
    """Return the parameters of a start: the file's, then each `--param`, then the prompt.

    Whether they fit the agent, the executor says. Those that no agent would receive are named on stderr.
    """
    schema = blueprint.parameters_schema
    parameters = {} if file is None else load_object(file)
    for pair in pairs:
        name, value = _parse_pair(pair, schema)
        parameters[name] = value
    if prompt is None and not parameters and schema is None:
        prompt = _prompt_from_pipe()
        if prompt is None and blueprint.type == "autonomous":
            raise click.UsageError(MISSING_PROMPT)
    if prompt is not None:
        parameters["prompt"] = _read_prompt(prompt)
    if schema is None and blueprint.type == "autonomous":
        idle = "ignored; an agent without a parameters_schema takes only 'prompt'"
        show_remarks("parameters", [f"{below(ROOT, name)}: {idle}" for name in parameters if name != "prompt"])
    return parameters


def required_prompt(prompt: str | None) -> str:
    """Return the prompt of a session's next run: as given, or as piped in.

    Raises:
        click.UsageError: there is none.
    """
    found = _prompt_from_pipe() if prompt is None else _read_prompt(prompt)
    if not found:
        raise click.UsageError(MISSING_PROMPT)
    return found


def _read_prompt(prompt: str) -> str:
    """Return the prompt itself; `-` means that it stands on stdin."""
    return sys.stdin.read() if prompt == STDIN else prompt


def _prompt_from_pipe() -> str | None:
    """Return what is piped in; None at a terminal, and where stdin is no pipe, file or socket (such as /dev/null)."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return None
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
        return None
    return sys.stdin.read() or None


def _parse_pair(pair: str, schema: JsonObject | None) -> tuple[str, JsonValue]:
    """Read `K=V`. V is text, unless the schema says that K is none: then it is JSON.

    Raises:
        click.BadParameter: there is no `=`, or V is not the JSON that is wanted.
    """
    name, text = split_pair(pair, "--param")
    types = _types_of(name, schema)
    if not types or "string" in types:
        return name, text
    try:
        return name, parse_json(text)
    except NotInteroperable as error:
        hint = f"{name} has the type {' or '.join(types)}, and {text[:80]!r} is not JSON that a run can carry: {error}"
        raise click.BadParameter(hint, param_hint="--param") from error


def _types_of(name: str, schema: JsonObject | None) -> list[str]:
    properties = (schema or {}).get("properties")
    described = properties.get(name) if isinstance(properties, dict) else None
    types = described.get("type") if isinstance(described, dict) else None
    listed = types if isinstance(types, list) else [types]
    return [item for item in listed if isinstance(item, str)]
