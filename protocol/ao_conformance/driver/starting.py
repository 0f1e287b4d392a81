"""How a process is started, and in words how it ended."""

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Stdin = Literal["pipe", "closed", "terminal", "file"]
TELLING: Final = (
    re.compile(r"[\w.:]*(error|exception|panic)\b", re.IGNORECASE),
    re.compile(r".*(error|exception|panic|can(no|')t\b)", re.IGNORECASE),
)
"""Lines that say why a program gave up, the surest first: `Error: …` stands behind `throw new Error(…)`."""
COMPLAINT_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True)
class Start:
    """How a process is started."""

    argv: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    stdin: Stdin = "pipe"
    stdin_file: Path | None = None
    reads_slowly: bool = False
    inherited: tuple[int, ...] = ()
    """Descriptors that it gets beside the usual three."""
    own_folder: Path | None = None
    """A folder in which nobody works but what this process has started; nothing outside the play may be in it."""


def exit_text(code: int) -> str:
    """Return the exit code of a process, negative for a signal, for people."""
    if code >= 0:
        return f"exit {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"


def complaint(stderr: bytes) -> str:
    """Return the line that says why a process gave up: the first that tells of an error, else the last; or nothing.

    Interpreters write more behind it, such as a stack and their own version.
    """
    lines = [line.strip() for line in stderr.decode(errors="backslashreplace").splitlines() if line.strip()]
    if not lines:
        return ""
    telling = [number for form in TELLING for number, line in enumerate(lines) if form.match(line)]
    number = telling[0] if telling else len(lines) - 1
    said = " ".join(lines[number : number + 2]) if lines[number].endswith(":") else lines[number]
    return said[:COMPLAINT_CHARACTERS]
