"""How a process is started, and in words how it ended."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Stdin = Literal["pipe", "closed", "terminal", "file"]


@dataclass(frozen=True, slots=True)
class Start:
    """How a process is started."""

    argv: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    stdin: Stdin = "pipe"
    stdin_file: Path | None = None
    reads_slowly: bool = False
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
