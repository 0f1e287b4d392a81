"""The command line: no argument runs, `describe` and `check` tell (SPEC 7)."""

import json
import os
from typing import Any

from description import DESCRIPTION

HELP = """\
usage: ao-reference-exec             one run: an invocation on stdin, events on stdout
       ao-reference-exec describe    print what this executor is
       ao-reference-exec check       say whether it could work
"""
BAD_COMMAND_LINE = 2


def main(arguments: list[str]) -> int:
    """Do what the command line says and return the exit code."""
    match arguments:
        case ["describe"]:
            return tell(DESCRIPTION, 0)
        case ["check"]:
            problems = problems_here()
            return tell({"ok": not problems, "problems": problems}, 1 if problems else 0)
        case [] if not os.isatty(0):
            return run()
    os.write(2, HELP.encode())
    return BAD_COMMAND_LINE


def run() -> int:
    """Perform runs; descriptor 1 is moved away first, so that whatever prints there prints to stderr."""
    events = os.dup(1)
    os.dup2(2, 1)
    from process import Process

    return Process(events, os.environ).live()


def tell(document: dict[str, Any], code: int) -> int:
    """Print one line and return the exit code."""
    os.write(1, json.dumps(document).encode() + b"\n")
    return code


def problems_here() -> list[str]:
    """Return why no run could succeed here, as far as that can be seen without a model."""
    problems = []
    if not os.environ.get("ANTHROPIC_API_KEY"):
        problems.append("ANTHROPIC_API_KEY is not set; set it to a key of the model's provider")
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if not any(os.access(f"{folder}/sh", os.X_OK) for folder in folders):
        problems.append("sh is not on PATH; install a POSIX shell")
    return problems
