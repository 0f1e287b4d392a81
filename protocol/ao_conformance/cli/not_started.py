"""Why a command cannot be started, and what to do about it."""

import errno
import os
import shutil
from pathlib import Path

import click


def not_started(program: str, error: OSError) -> click.UsageError:
    """Return the error for the command line whose first word could not be started."""
    found = shutil.which(program)
    if Path(program).is_dir() and found is None:
        return click.UsageError(_of_directory(program))
    return click.UsageError(f"{program} cannot be started: {_reason(program, Path(found or program), error)}")


def _of_directory(program: str) -> str:
    typed = program.rstrip("/") if "/" in program else f"./{program}"
    inside = [f"{typed}/{path.name}" for path in sorted(Path(program).glob("ao-*-exec")) if _is_executable(path)]
    match inside:
        case [executable]:
            return f"{program} is a directory; its executable is {executable}"
        case []:
            return f"{program} is a directory; name the program that it should start"
        case _:
            return f"{program} is a directory; name one of its executables: {', '.join(inside)}"


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _reason(program: str, path: Path, error: OSError) -> str:
    match error.errno:
        case errno.ENOEXEC:
            return "it is neither a program for this machine nor a script whose first line begins with #!"
        case errno.EACCES if path.exists():
            return f"it is not executable; try: chmod +x {program}"
        case errno.ENOENT if "/" not in program and path == Path(program):
            here = f"; the file in this directory is ./{program}" if path.exists() else ""
            return f"there is no such command{here}"
        case errno.ENOENT if path.exists():
            return "the interpreter in its #! line does not exist, or a library that it needs"
        case errno.ENOENT:
            return "there is no such file"
    return error.strerror or str(error)
