"""Listens to the control lines that follow an invocation (SPEC 4.4)."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ao_executors.core.cancellation import Cancellation
from ao_executors.core.emitter import Emitter
from ao_executors.core.stdio import Stdio
from ao_protocol.control import Cancel, InvalidControlLine, parse_control_line
from ao_protocol.events import Log
from ao_protocol.framing import LineTooLong


@contextmanager
def listen(
    loop: asyncio.AbstractEventLoop, stdio: Stdio, events: Emitter, cancellation: Cancellation, *, enabled: bool
) -> Iterator[None]:
    """Turn `cancel` lines and the end of stdin into a request to cancel, while the block runs.

    Where the invocation did not open stdin for control, what stands there means nothing, its end included. The end
    of a regular file never does: nobody is gone (AOX-067).
    """
    if not enabled:
        yield
        return

    def take() -> None:
        for line in stdio.read_lines():
            _obey(line, events, cancellation)

    def take_from_runner() -> None:
        try:
            take()
        except EOFError:
            loop.remove_reader(stdio.stdin_fd)
            cancellation.request("stdin was closed, so the runner is gone")

    if stdio.has_lines:
        take()
    try:
        loop.add_reader(stdio.stdin_fd, take_from_runner)
    except PermissionError:  # a regular file cannot be waited for, and never makes anybody wait
        with suppress(EOFError):
            while True:
                take()
    try:
        yield
    finally:
        loop.remove_reader(stdio.stdin_fd)


def _obey(line: bytes | LineTooLong, events: Emitter, cancellation: Cancellation) -> None:
    if isinstance(line, bytes) and not line.strip():
        return
    try:
        command = parse_control_line(line) if isinstance(line, bytes) else None
    except InvalidControlLine as error:
        events.emit(Log(level="warning", message=f"a line on stdin was ignored: {error}"))
        return
    if isinstance(command, Cancel):
        cancellation.request(
            f"the runner asked for it ({command.reason})" if command.reason else "the runner asked for it"
        )
