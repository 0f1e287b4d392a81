"""A child that waits for a run: its stderr is drained, and that it has gone or speaks unasked is noticed at once."""

import asyncio
import select
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ao_protocol.framing import encode_line
from ao_runner.processes.scratch import Scratch
from ao_runner.processes.spawn import Child, Tail, read_available

LEAVE_SECONDS: Final = 5.0
"""How long one that is not needed any more has to leave by itself."""
KILL_SECONDS: Final = 1.0


@dataclass(slots=True, eq=False)
class PooledProcess:
    """Owns a child from `wait` until `take` or `retire`; `on_gone` hears when it is of no use any more."""

    child: Child
    scratch: Scratch
    stderr: Tail
    on_gone: Callable[["PooledProcess"], None]
    is_leaving: bool = False
    is_gone: bool = False
    _is_writing: bool = False
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _due: asyncio.TimerHandle | None = None

    def wait(self) -> None:
        """Begin to watch."""
        self._loop.add_reader(self.child.exit_fd, self._gone)
        self._loop.add_reader(self.child.stdout_fd, self._speaks)
        self._loop.add_reader(self.child.stderr_fd, self._read_stderr)

    @property
    def is_there(self) -> bool:
        """Whether it waits in silence at this moment; that it has left is heard a little later than it happens."""
        poll = select.poll()  # `select.select` knows no descriptor above 1023
        for fd in (self.child.exit_fd, self.child.stdout_fd):
            poll.register(fd, select.POLLIN)
        return not self.is_gone and not poll.poll(0)

    def take(self) -> Child:
        """Hand the child to a run."""
        self._unwatch()
        return self.child

    def send(self, data: bytes) -> None:
        """Write to its stdin, as it takes it."""
        self.child.stdin.send(data)
        if self.child.stdin.wants_to_write and not self._is_writing:
            self._loop.add_writer(self.child.stdin.fd, self._write)
            self._is_writing = True

    def retire_at(self, seconds: float) -> None:
        """Let it go when nobody has taken it by then."""
        self._due = self._loop.call_later(seconds, self._expire)

    def retire(self) -> None:
        """Tell it to leave; it is ended if it does not."""
        if self.is_leaving:
            return
        self.is_leaving = True
        self._cancel_due()
        self._loop.remove_reader(self.child.stdout_fd)
        self._stop_writing()
        self.child.stdin.send(encode_line({"type": "shutdown"}))
        self.child.stdin.close()
        self._due = self._loop.call_later(LEAVE_SECONDS, self._end)

    def close(self) -> None:
        """End it now."""
        self.is_gone = True
        self._unwatch()
        self.child.close()
        self.scratch.remove()

    def _expire(self) -> None:
        self.on_gone(self)
        self.retire()

    def _end(self) -> None:
        self._cancel_due()
        self.child.signal_group(signal.SIGKILL)
        self._due = self._loop.call_later(KILL_SECONDS, self._gone)

    def _gone(self) -> None:
        self.close()
        self.on_gone(self)

    def _speaks(self) -> None:
        """Nothing may come now; what does would be taken for the next run's. Its end is nothing, too."""
        self.is_leaving = True
        self.on_gone(self)
        self._loop.remove_reader(self.child.stdout_fd)
        self._end()

    def _write(self) -> None:
        self.child.stdin.write_pending()
        if not self.child.stdin.wants_to_write:
            self._stop_writing()

    def _stop_writing(self) -> None:
        if self._is_writing:
            self._loop.remove_writer(self.child.stdin.fd)
            self._is_writing = False

    def _read_stderr(self) -> None:
        chunk = read_available(self.child.stderr_fd)
        if chunk:
            self.stderr.feed(chunk)
        elif chunk is not None:
            self._loop.remove_reader(self.child.stderr_fd)

    def _unwatch(self) -> None:
        self._cancel_due()
        self._stop_writing()
        for fd in (self.child.exit_fd, self.child.stdout_fd, self.child.stderr_fd):
            self._loop.remove_reader(fd)

    def _cancel_due(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
