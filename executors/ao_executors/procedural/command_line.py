"""A procedural agent's command line: the program of its blueprint, and its parameters as arguments.

The program must be in the folder of commands. `--key value` is built without a shell (docs/decisions/procedural.md).
"""

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from pydantic import JsonValue

from ao_executors.core import RunFailed
from ao_executors.core.executor import refused
from ao_executors.core.program import MAX_ARGUMENT_BYTES
from ao_protocol.contracts.problems import Problem
from ao_protocol.documents import Blueprint
from ao_protocol.errors import ErrorType
from ao_protocol.json_path import below

_PLAIN_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Command:
    """An existing program, with the fixed arguments of the blueprint."""

    name: str
    program: Path
    arguments: tuple[str, ...]


def find_command(blueprint: Blueprint | None, folder: Path) -> Command:
    """Return the command of a procedural agent.

    The blueprint's `command` is a path below `folder`, optionally followed by fixed arguments in shell quoting.

    Raises:
        RunFailed: The blueprint has no command, or it is not an executable file inside the folder.
    """
    written = blueprint.command if blueprint is not None else None
    try:
        words = shlex.split(written or "")
    except ValueError as error:
        raise _invalid(f"{written!r} cannot be split into words: {error}") from error
    if not words or not words[0]:
        raise _invalid("is missing; expected the program of the procedural agent")
    name, *arguments = words
    return Command(name, _resolved(name, folder), tuple(arguments))


def _invalid(reason: str) -> RunFailed:
    problem = f"$.agent_blueprint.command: {reason}"
    return refused(ErrorType.INVALID_INVOCATION, f"invalid invocation: {problem}", {"problems": [problem]})


def _resolved(name: str, folder: Path) -> Path:
    if PurePath(name).is_absolute() or ".." in PurePath(name).parts:
        raise _missing(name, folder, "is not a path below the folder of commands")
    try:
        program = (folder / name).resolve(strict=True)
    except FileNotFoundError:
        raise _missing(name, folder, "is not there") from None
    except (OSError, RuntimeError, ValueError) as error:  # the name is too long or has a NUL, or links form a loop
        raise _missing(name, folder, f"cannot be looked up: {error}") from error
    if not program.is_relative_to(folder.resolve()):
        raise _missing(name, folder, f"leads out of the folder of commands, to {program}")
    if not program.is_file():
        raise _missing(name, folder, "is not a file")
    if not os.access(program, os.X_OK):
        raise _missing(name, folder, "is not executable; chmod +x it")
    return program


def _missing(name: str, folder: Path, reason: str) -> RunFailed:
    message = f"the command {name!r} {reason} (commands are looked for in {folder}; executor_config.commands_dir)"
    return RunFailed(ErrorType.DEPENDENCY_MISSING, message, origin="environment")


def problems_with(parameters: Mapping[str, JsonValue]) -> list[str]:
    """Return why parameters cannot be arguments, for every such parameter."""
    reasons = {key: _why_not(key, value) for key, value in parameters.items()}
    return [str(Problem(below("$", key), reason)) for key, reason in reasons.items() if reason is not None]


def arguments_of(parameters: Mapping[str, JsonValue]) -> list[str]:
    """Return the arguments for parameters without problems, in their order.

    `true` becomes `--key` alone; `false` and `null` are left out; a list is joined with commas; an object becomes
    compact JSON. A value that begins with a dash is written `--key=value`, so that it is not read as an option.
    """
    return [argument for key, value in parameters.items() for argument in _option(key, value)]


def _option(key: str, value: JsonValue) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{key}"]
    text = _text_of(value)
    return [f"--{key}={text}"] if text.startswith("-") else [f"--{key}", text]


def _text_of(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ",".join(_text_of(element) for element in value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _why_not(key: str, value: JsonValue) -> str | None:
    if not _PLAIN_WORD.fullmatch(key):
        return "is not a valid option name; expected letters, digits, _ and -, and no - in front"
    if isinstance(value, list) and any(isinstance(element, list | dict) for element in value):
        return "is a list with lists or objects in it, which commas cannot join; pass an object"
    text = _text_of(value)
    if "\0" in text:
        return "holds a NUL character, which no argument can"
    if len(f"--{key}={text}".encode(errors="replace")) > MAX_ARGUMENT_BYTES:
        return f"is longer than the {MAX_ARGUMENT_BYTES} bytes that an argument may have; pass the name of a file"
    return None
