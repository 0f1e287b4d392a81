"""Read the control lines that follow an invocation, during its run and between runs (SPEC 4.4).

Internal.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ao_executors.core.executor import Task
from ao_executors.core.executor_process import Cancellation
from ao_executors.core.stdio import Stdio
from ao_protocol.framing import LineTooLong

if TYPE_CHECKING:
    from ao_protocol.control_lines import ControlLine, Shutdown, Turn


class ControlLines:
    """stdin after the invocation.

    If `control.stdin` is not open (`is_open`), stdin is not read, and its end has no meaning. An executor ignores the
    lines of a capability that it does not declare (AOX-123): `declared` has those that are.
    """

    def __init__(self, stdio: Stdio, cancellation: Cancellation, *, is_open: bool, declared: frozenset[str]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stdio = stdio
        self._cancellation = cancellation
        self._is_open = is_open
        self._declared = declared
        self._waiting: deque[Turn | Shutdown] = deque()
        """Turns and shutdowns that wait for the end of the run."""

    @property
    def ask_to_leave(self) -> bool:
        """True if a `shutdown` is the next line after this run."""
        return bool(self._waiting) and self._waiting[0].type == "shutdown"

    @contextmanager
    def heard(self, task: Task) -> Iterator[None]:
        """Turn `cancel` lines and the end of stdin into a request to cancel, while the block runs.

        Answers go to the requests of the task. The end of a regular file has no meaning (AOX-067). Turns wait for the
        end of the run.
        """
        if not self._is_open:
            yield
            return
        if self._stdio.has_lines:
            self._take(task)

        def take_from_runner() -> None:
            try:
                self._take(task)
            except EOFError:
                self._loop.remove_reader(self._stdio.stdin_fd)
                self._cancellation.request("stdin was closed: the runner has exited", for_good=True)

        try:
            self._loop.add_reader(self._stdio.stdin_fd, take_from_runner)
        except PermissionError:  # a regular file cannot be polled; it is always readable
            with suppress(EOFError):
                while True:
                    self._take(task)
        try:
            yield
        finally:
            self._loop.remove_reader(self._stdio.stdin_fd)

    async def next_turn(self) -> "Turn | None":
        """Wait for the next turn; None if the process has to exit. Lines after the turn stay for its run.

        A `cancel` and an invalid line are ignored without a `log` event: between runs nothing is written.
        """
        with suppress(EOFError):
            while not self._waiting and not self._cancellation.is_for_good:
                await await_input(self._stdio, self._cancellation)
                for line in self._stdio.read_lines():
                    self._keep(_read(line, lambda _: None))
                    if self._waiting:
                        break
        following = self._waiting.popleft() if self._waiting and not self._cancellation.is_for_good else None
        return following if following is not None and following.type == "turn" else None

    def _take(self, task: Task) -> None:
        def warn(reason: str) -> None:
            task.events.warn(f"a line on stdin was ignored: {reason}")

        for line in self._stdio.read_lines():
            command = _read(line, warn)
            if command is not None and command.type == "cancel" and "cancel" in self._declared:
                told = f" ({command.reason})" if command.reason else ""
                self._cancellation.request(f"the runner asked for it{told}")
            elif command is not None and command.type == "input_response" and "input" in self._declared:
                task.inputs.receive(command.request_id, command.model_dump())
            elif command is not None and command.type == "park" and "input_parking" in self._declared:
                task.inputs.park()
            self._keep(command)

    def _keep(self, command: "ControlLine | None") -> None:
        if command is not None and (command.type == "turn" or command.type == "shutdown"):  # noqa: PLR1714  # narrows
            self._waiting.append(command)


async def await_input(stdio: Stdio, cancellation: Cancellation) -> None:
    """Wait between runs until stdin can be read.

    Raises:
        EOFError: A signal requested the end of the process.
    """
    loop, woken = asyncio.get_running_loop(), asyncio.Event()
    cancellation.when_requested(lambda: loop.call_soon_threadsafe(woken.set))
    try:
        if not stdio.has_lines:
            loop.add_reader(stdio.stdin_fd, woken.set)
            await woken.wait()
    except PermissionError:  # a regular file can always be read
        pass
    finally:
        loop.remove_reader(stdio.stdin_fd)
        cancellation.forget()
    if cancellation.is_for_good:
        raise EOFError("received a signal")


def _read(line: bytes | LineTooLong, ignore: Callable[[str], None]) -> "ControlLine | None":
    """Parse a line; None for one without meaning. For an invalid line, call `ignore` with the reason."""
    if isinstance(line, LineTooLong) or not line.strip():
        return None
    from ao_protocol.control_lines import InvalidControlLine, parse_control_line  # pydantic models, which few runs need

    try:
        return parse_control_line(line)
    except InvalidControlLine as error:
        ignore(str(error))
        return None
