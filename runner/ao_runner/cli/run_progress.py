"""The listeners that show the progress of a run: as events, or as lines for people.

Events go to stdout, everything else to stderr.
"""

import asyncio
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Self, TextIO

from ao_runner.cli.options import Style, wants_colour
from ao_runner.cli.printing import echo, escaped_line
from ao_runner.errors import RunnerError
from ao_runner.run_events import Relayed
from ao_runner.runs.journal import Listener, NeverFull

if TYPE_CHECKING:
    from ao_runner.cli.progress_lines import Narrator, ProgressLine


@contextmanager
def follow_run(
    style: Style, attempts: int | None, stop: Callable[[], None], *, is_verbose: bool = False
) -> Iterator[Listener]:
    """Yield the listener for a style. `stop` is called when its output has no reader any more.

    `attempts` is the maximum number of answers under the output contract, if it is known beforehand. `is_verbose` is
    whether people see messages, and what the model thought, as a whole.
    """
    if style != "people":
        with EventLines(stop, terminal_only=style == "json") as lines:
            yield lines
    elif sys.stderr.isatty() and wants_colour():
        from ao_runner.cli.live_progress import LiveProgress

        with LiveProgress(attempts, is_verbose=is_verbose) as progress:
            yield progress
    else:
        yield PlainProgress(stop, is_verbose=is_verbose)


def _silence(stream: TextIO) -> None:
    """Redirect a stream without a reader to /dev/null, so that the flush of its buffer at the exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def only_progress_is_lost(without_reader: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let the run go on if stderr cannot be written; call `without_reader` if it is a pipe that nobody reads."""
    try:
        yield
    except BlockingIOError:
        pass  # the pipe is full; the next line may find room
    except OSError as error:
        _silence(sys.stderr)
        if isinstance(error, BrokenPipeError):
            without_reader()


class StdoutUnwritable(RunnerError):
    """Events of a run could not be printed, for a reason other than a closed pipe."""

    exit_code = 1


class EventLines:
    """The listener that prints events as they are relayed, one JSON line each, without waiting for the reader.

    Unread lines are buffered, and the executor waits meanwhile. The end of the `with` block writes the rest, and raises
    `StdoutUnwritable` if something could not be written.
    """

    def __init__(self, stop: Callable[[], None], *, terminal_only: bool) -> None:
        self._stop = stop
        self._terminal_only = terminal_only
        self._is_read = True
        self._descriptor = sys.stdout.fileno()
        self._is_shown = sys.stdout.isatty()
        self._unread = bytearray()
        self._wanting_room: list[Callable[[], None]] = []
        self._unwritable: OSError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._write_all()
        if self._unwritable is not None and kind is None:
            told = f"stdout cannot be written: {self._unwritable.strerror or self._unwritable}"
            raise StdoutUnwritable(
                f"{told}. The run is stored; `ao events last` prints its events"
            ) from self._unwritable

    @property
    def is_full(self) -> bool:
        """Whether unread lines are buffered."""
        return bool(self._unread)

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call `callback` once all lines are read."""
        self._wanting_room.append(callback)

    def on_event(self, relayed: Relayed) -> None:
        """Print the event, if its type is requested."""
        if not self._terminal_only or relayed.event_type in {"result", "failure"}:
            # Elsewhere than at a terminal a line is passed on byte by byte (AOX-235).
            self.write_line(escaped_line(relayed.line) if self._is_shown else relayed.line)

    def write_line(self, line: bytes) -> None:
        """Write a line, now or when the reader takes it."""
        if not self._is_read:
            return
        had_unread = bool(self._unread)
        self._unread += line + b"\n"
        if not had_unread:
            self._write_what_is_taken()
            if self._unread:
                self._wait_for_reader()

    def _wait_for_reader(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._write_all()  # a worker performs the run; this process has nothing else to do
        else:
            loop.add_writer(self._descriptor, self._go_on)

    def _go_on(self) -> None:
        self._write_what_is_taken()
        if not self._unread:
            asyncio.get_running_loop().remove_writer(self._descriptor)
            wanting, self._wanting_room = self._wanting_room, []
            for callback in wanting:
                callback()

    def _write_what_is_taken(self) -> None:
        """Write in pieces that a ready pipe accepts as a whole, so that no write waits."""
        while self._unread and select.select([], [self._descriptor], [], 0)[1]:
            self._write(select.PIPE_BUF)

    def _write_all(self) -> None:
        while self._unread:
            select.select([], [self._descriptor], [])  # another process may have made it non-blocking
            self._write(len(self._unread))

    def _write(self, most_bytes: int) -> None:
        try:
            del self._unread[: os.write(self._descriptor, self._unread[:most_bytes])]
        except BlockingIOError:
            pass  # the pipe had less room than `select` reported
        except OSError as error:
            self._is_read = False
            self._unwritable = None if isinstance(error, BrokenPipeError) else error
            self._unread.clear()
            _silence(sys.stdout)
            self._stop()

    def on_note(self, note: str) -> None:
        """Print the note to stderr."""
        with only_progress_is_lost():
            echo(f"ao: {note}", err=True)


class PlainProgress(NeverFull):
    """The progress of a run as lines of plain text, with the seconds since its start."""

    def __init__(self, stop: Callable[[], None], *, is_verbose: bool) -> None:
        self._stop = stop
        self._is_verbose = is_verbose
        self._began_at = time.monotonic()

    @cached_property
    def _narrator(self) -> "Narrator":
        from ao_runner.cli.progress_lines import Narrator  # the executor starts meanwhile

        return Narrator(is_verbose=self._is_verbose)

    def on_event(self, relayed: Relayed) -> None:
        """Print the lines for the event."""
        for line in self._narrator.tell(relayed):
            self._print(line)

    def on_note(self, note: str) -> None:
        """Print the note as a line."""
        from ao_runner.cli.progress_lines import ProgressLine

        self._print(ProgressLine("!", note, "warning"))

    def _print(self, line: "ProgressLine") -> None:
        elapsed = time.monotonic() - self._began_at
        with only_progress_is_lost(self._stop):
            echo(f"[{elapsed:6.1f}s] {line.mark} {line.text}".rstrip(), err=True)
