"""Finds the program that a blueprint's `command` names, in its own folder and nowhere else."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path, PurePath

from ao_executors.core.failures import RunFailed, refused
from ao_protocol.documents import Blueprint
from ao_protocol.errors import ErrorType


@dataclass(frozen=True, slots=True)
class Command:
    """A program that is there, with the arguments that the blueprint itself gives it."""

    name: str
    program: Path
    arguments: tuple[str, ...]


def find_command(blueprint: Blueprint | None, folder: Path) -> Command:
    """Return the command of a procedural agent.

    `command` is a path below `folder`, and may be followed by fixed arguments, quoted as a shell would have them.

    Raises:
        RunFailed: the blueprint names none, or it is not an executable file inside the folder.
    """
    words = _words(blueprint)
    name, *arguments = words
    return Command(name, _resolved(name, folder), tuple(arguments))


def _words(blueprint: Blueprint | None) -> list[str]:
    written = blueprint.command if blueprint is not None else None
    try:
        words = shlex.split(written or "")
    except ValueError as error:
        raise _invalid(f"{written!r} cannot be split into words: {error}") from error
    if not words or not words[0]:
        raise _invalid("is missing; expected the program of the procedural agent")
    return words


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
    except (OSError, RuntimeError, ValueError) as error:  # too long a name, links in a circle, a NUL
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
