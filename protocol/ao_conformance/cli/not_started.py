"""Why a command cannot be started, and what to do about it."""

import errno
import shutil
from pathlib import Path

import click


def not_started(program: str, error: OSError) -> click.UsageError:
    """Return the error for the command line whose first word could not be started."""
    return click.UsageError(f"{program} cannot be started: {_reason(program, error)}")


def _reason(program: str, error: OSError) -> str:
    path = Path(shutil.which(program) or program)
    match error.errno:
        case errno.EACCES if path.is_dir():
            return "it is a directory"
        case errno.ENOEXEC:
            return "it is neither a program for this machine nor a script whose first line begins with #!"
        case errno.EACCES if path.exists():
            return f"it is not executable; try: chmod +x {program}"
        case errno.ENOENT if path.exists():
            return "the interpreter in its #! line does not exist, or a library that it needs"
        case errno.ENOENT:
            here = "" if "/" in program else f" or command; a file in this directory is ./{program}"
            return f"there is no such file{here}"
    return error.strerror or str(error)
