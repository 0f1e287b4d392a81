"""The command line `ao`. This module must load with the base package alone, so it imports none of the extras."""

import gc
import io
import os
import re
import select
import sys
from typing import TYPE_CHECKING, Final, TextIO

from ao_runner.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PACKAGES_OF: Final = {
    "cli": ("click", "jmespath", "platformdirs", "rich", "yaml"),
    "serve": ("fastapi", "mcp", "sse_starlette", "uvicorn"),
    "worker": ("httpx", "prometheus_client", "structlog"),
    "postgres": ("psycopg",),
}
"""The packages of each extra."""
NEEDS_EXTRA: Final = 'ao: this needs the package {name}; install it with: pip install "ao-executor-protocol[{extra}]"'
EXIT_USAGE: Final = 2
NO_UTF8: Final = "ao: {what}: byte {byte} is not UTF-8; convert the text, or rename the file or folder"


_CLOSED: Final = ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY))
"""Descriptor 1 is opened read-only, so that a coordinator that writes events to it gets an error."""


def main() -> None:
    """Run the command line and exit."""
    fill_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may have a smaller alphabet
    have_stdout_wait()
    sys.stdout, sys.stderr = _PlainStream(sys.stdout), _PlainStream(sys.stderr)
    refuse_bytes()
    try:
        gc.disable()  # it finds nothing in modules, and takes a fifth of the time; `program` enables it behind them
        from ao_runner.cli.program import program

        program(prog_name="ao")
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)  # before a command has begun
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        extra = next((extra for extra, names in PACKAGES_OF.items() if name in names), None)
        if extra is None:
            raise
        print(NEEDS_EXTRA.format(name=name, extra=extra), file=sys.stderr)  # noqa: T201  # without click
        sys.exit(EXIT_USAGE)


def refuse_bytes() -> None:
    """Exit with a message if an argument, or a variable that ao reads, is not UTF-8: no store and no line holds it."""
    given = {f"argument {number}": text for number, text in enumerate(sys.argv[1:], 1)}
    given |= {name: text for name, text in os.environ.items() if name.startswith(("AO_", "HOME", "TMPDIR", "XDG_"))}
    for what, text in given.items():
        try:
            os.fsencode(text).decode()
        except UnicodeDecodeError as error:  # its text may be a secret
            print(NO_UTF8.format(what=what, byte=error.start), file=sys.stderr)  # noqa: T201  # without click
            sys.exit(EXIT_USAGE)


def fill_closed_streams() -> None:
    """Open /dev/null in place of each closed standard stream, in the order of their numbers.

    Otherwise another file could get the number. stdin is empty then, and messages for people are lost.
    """
    for number, flags in _CLOSED:
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)
    # The descriptors stay open until the process exits.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the file stays open until the process exits
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123


def have_stdout_wait() -> None:
    """Make writes to stdout wait for its reader, even if another process that shares it has made it non-blocking."""
    stream, number = sys.stdout, sys.stdout.fileno()
    if os.get_blocking(number):
        return
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_WaitingFile(number, "wb", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=bool(stream.line_buffering),
    )


class _WaitingFile(io.FileIO):
    def write(self, data: "ReadableBuffer", /) -> int:
        while (written := super().write(data)) is None:
            select.select([], [self.fileno()], [])
        return written


_STEERING: Final = re.compile("\x1b(?!\\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")
"""Control characters but tab, newline and the sequences for colours."""


class _PlainStream(io.TextIOWrapper):
    """A standard stream that leaves control characters out of every text, also out of tracebacks and of usage errors.

    Bytes are written as they are. Text that cannot be encoded is escaped.
    """

    def __init__(self, stream: TextIO) -> None:
        # PYTHONUNBUFFERED sets the second in place of the first.
        by_line, at_once = (bool(getattr(stream, name, True)) for name in ("line_buffering", "write_through"))
        super().__init__(stream.buffer, stream.encoding, "backslashreplace", "\n", by_line, at_once)
        self.unfiltered = stream
        """The stream for a program that moves the cursor. It also keeps the buffer open."""

    def write(self, text: str, /) -> int:
        return super().write(_STEERING.sub("", text))
