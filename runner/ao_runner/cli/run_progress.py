"""Show the progress of a run.

Results go to stdout, everything else to stderr.
"""

import asyncio
import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, Self, TextIO

from pydantic import JsonValue

from ao_protocol.events import (
    Body,
    Event,
    Heartbeat,
    InputRequested,
    InputResolved,
    Log,
    Message,
    MessageDelta,
    OutputValidation,
    Result,
    RetryScheduled,
    RunStarted,
    SessionBound,
    ToolFinished,
    ToolStarted,
    Usage,
    VendorEvent,
)
from ao_protocol.wire import JsonObject
from ao_runner.cli.message_tail import MessageTail
from ao_runner.cli.options import Style, wants_colour
from ao_runner.cli.printing import console, echo, escaped_line, plain_text, shorten
from ao_runner.errors import RunnerError
from ao_runner.run_events import NOT_DESCRIBED, Relayed
from ao_runner.runs.journal import Listener, NeverFull

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


Tone = Literal["plain", "dim", "good", "warn", "bad"]

STYLES: Final[dict[Tone, str]] = {"plain": "", "dim": "dim", "good": "green", "warn": "yellow", "bad": "red"}
MAX_MESSAGE_LINES: Final = 6
MAX_SHOWN_ERRORS: Final = 10


@dataclass(frozen=True, slots=True)
class Line:
    """A line for a person. The mark at its beginning shows what kind of line it is."""

    mark: str
    text: str
    tone: Tone = "plain"


class Narrator:
    """The lines for the events of a run.

    A message is held back until it is clear whether it is the result, which is shown separately.
    """

    def __init__(self) -> None:
        self._held_back: Message | None = None

    def tell(self, event: Event) -> list[Line]:
        """Return the lines for an event; none for an event that is only for programs."""
        body = event.body
        if isinstance(body, Usage):
            return []
        held, self._held_back = self._held_back, None
        if isinstance(body, Message) and body.role == "assistant":
            self._held_back = body
        told = [] if held is None or _is_result(held, body) else _message(held)
        if isinstance(body, OutputValidation):
            return told + _validation(body)
        line = _one_line(body)
        return told + ([line] if line else [])


def _is_result(message: Message, body: Body) -> bool:
    if not isinstance(body, Result):
        return False
    text = _text(message)
    if body.result_text is not None:
        return text == body.result_text
    try:
        return bool(json.loads(text) == body.result_data)
    except (ValueError, RecursionError):
        return False


def _text(message: Message) -> str:
    return "".join(block.text for block in message.content)


def _one_line(body: Body) -> Line | None:
    line = None
    match body:
        case RunStarted(executor=executor) if executor.version != NOT_DESCRIBED:
            line = Line("·", f"{executor.name} {executor.version} started", "dim")
        case SessionBound(model=str(model)):
            line = Line("·", f"model {model}", "dim")
        case ToolStarted(tool_name=name, tool_input=tool_input):
            line = Line("→", f"{name} {_brief(tool_input)}".rstrip())
        case ToolFinished(tool_name=name, status=status, error=error) if status != "completed":
            line = Line("!", f"{name} {status}{f': {error}' if error else ''}", "warn")
        case RetryScheduled(error=error, attempt=attempt, delay_seconds=delay):
            line = Line("…", f"{error.type}: {error.message}; retry {attempt} in {delay:g} s", "warn")
        case Log(level="warning" | "error" as level, message=message):
            line = Line("!", message, "warn" if level == "warning" else "bad")
        case InputRequested(title=title):
            line = Line("?", title, "warn")
        case VendorEvent(event_type="_ao/workspace", fields=fields):
            line = _workspace(fields)
        case InputResolved(outcome=outcome) if outcome != "accepted":
            line = Line("!", f"the request {'expired' if outcome == 'expired' else f'was {outcome}'}", "warn")
    return line and replace(line, text=shorten(line.text))


def _workspace(fields: JsonObject) -> Line:
    """Return where the changes of a run are."""
    kept = f"workspace: {fields['path']}" if fields.get("path") else ""
    branch = f"branch {fields['branch']}" if fields.get("branch") else ""
    parts = (f"{fields.get('file_count', '?')} files changed", branch, kept, str(fields.get("problem", "")))
    return Line("·", ", ".join(filter(None, parts)), "warn" if "problem" in fields else "plain")


def _message(message: Message) -> list[Line]:
    text = plain_text(_text(message)).strip()
    lines = [line for line in text.splitlines() if line.strip()]
    shown = [Line("│", shorten(line)) for line in lines[:MAX_MESSAGE_LINES]]
    more = len(lines) - MAX_MESSAGE_LINES
    return shown + ([Line("│", f"… {more} more lines", "dim")] if more > 0 else [])


def _validation(verdict: OutputValidation) -> list[Line]:
    attempt, attempts = verdict.attempt, verdict.attempt + verdict.retries_left
    if verdict.valid:
        return [Line("✓", f"attempt {attempt} of {attempts}: the answer fits the schema", "good")]
    next_step = "asking again" if verdict.retries_left else "giving up"
    head = Line("✗", f"attempt {attempt} of {attempts}: the answer does not fit the schema; {next_step}", "warn")
    errors = [Line(" ", f"  {shorten(error)}", "warn") for error in verdict.errors[:MAX_SHOWN_ERRORS]]
    more = len(verdict.errors) - MAX_SHOWN_ERRORS
    return [head, *errors, *([Line(" ", f"  … {more} more", "warn")] if more > 0 else [])]


def _brief(value: JsonValue) -> str:
    if value is None or value == {}:
        return ""
    if isinstance(value, dict) and len(value) == 1:
        (only,) = value.values()
        return only if isinstance(only, str) else json.dumps(only, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


@contextmanager
def follow_run(style: Style, attempts: int | None, stop: Callable[[], None]) -> Iterator[Listener]:
    """Yield the listener for a style. `stop` is called when its output has no reader any more.

    `attempts` is the maximum number of answers under the output contract, if it is known beforehand.
    """
    if style != "people":
        with EventLines(stop, terminal_only=style == "json") as lines:
            yield lines
    elif sys.stderr.isatty() and wants_colour():
        with LiveProgress(attempts) as progress:
            yield progress
    else:
        yield PlainProgress(stop)


def _silence(stream: TextIO) -> None:
    """Redirect a stream without a reader to /dev/null, so that the flush of its buffer at the exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@dataclass(eq=False)
class StdoutUnwritable(RunnerError):
    """Events of a run could not be printed, for a reason other than a closed pipe."""

    exit_code = 1

    reason: str

    def __str__(self) -> str:
        return f"stdout cannot be written: {self.reason}. The run is stored; `ao events last` prints its events"


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
            raise StdoutUnwritable(self._unwritable.strerror or str(self._unwritable)) from self._unwritable

    @property
    def is_full(self) -> bool:
        """Whether unread lines are buffered."""
        return bool(self._unread)

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call `callback` once all lines are read."""
        self._wanting_room.append(callback)

    def on_event(self, relayed: Relayed) -> None:
        """Print the event, if its type is requested."""
        if not self._is_read or (self._terminal_only and relayed.event_type not in {"result", "failure"}):
            return
        had_unread = bool(self._unread)
        # Elsewhere than at a terminal a line is passed on byte by byte (AOX-235).
        self._unread += (escaped_line(relayed.line) if self._is_shown else relayed.line) + b"\n"
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
        try:
            echo(f"ao: {note}", err=True)
        except BlockingIOError:
            pass
        except OSError:
            _silence(sys.stderr)


class PlainProgress(NeverFull):
    """The progress of a run as lines of plain text, with the seconds since its start."""

    def __init__(self, stop: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._stop = stop
        self._narrator = Narrator()
        self._clock = clock
        self._began_at = clock()

    def on_event(self, relayed: Relayed) -> None:
        """Print the lines for the event."""
        for line in self._narrator.tell(relayed.event):
            self._print(line)

    def on_note(self, note: str) -> None:
        """Print the note as a line."""
        self._print(Line("!", note, "warn"))

    def _print(self, line: Line) -> None:
        elapsed = self._clock() - self._began_at
        try:
            echo(f"[{elapsed:6.1f}s] {line.mark} {line.text}".rstrip(), err=True)
        except BrokenPipeError:
            _silence(sys.stderr)
            self._stop()
        except BlockingIOError:
            pass  # the pipe is full; the next line may find room
        except OSError:
            _silence(sys.stderr)  # only the progress is lost


class LiveProgress(PlainProgress):
    """The progress of a run on a terminal: past events, the message that is being written, and the current activity."""

    def __init__(self, attempts: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.live import Live
        from rich.spinner import Spinner

        super().__init__(stop=lambda: None, clock=clock)
        self._attempt, self._attempts = 1, attempts
        self._doing = "starting"
        self._open_tools: dict[str, str] = {}
        self._writing = MessageTail()
        self._console: Console = console(err=True)
        self._spinner = Spinner("dots")
        self._live = Live(get_renderable=self._status, console=self._console, transient=True, refresh_per_second=8)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.pause()

    def pause(self) -> None:
        """Draw nothing below the past events, for a prompt."""
        try:
            self._live.stop()
        except OSError:
            _silence(sys.stderr)

    def resume(self) -> None:
        """Draw the current activity again."""
        self._live.start()

    def on_event(self, relayed: Relayed) -> None:
        """Print the lines for the event, and update the current activity."""
        self._writing.receive(relayed.event.body)
        super().on_event(relayed)
        match relayed.event.body:
            case ToolStarted(tool_call_id=call, tool_name=name):
                self._open_tools[call] = name
            case ToolFinished(tool_call_id=call):
                self._open_tools.pop(call, None)
                self._doing = "thinking"
            case MessageDelta():
                self._doing = "writing"
            case Heartbeat(phase="retry_wait"):
                self._doing = "waiting to try again"
            case OutputValidation() as verdict:
                self._attempts = verdict.attempt + verdict.retries_left
                self._attempt = min(verdict.attempt + (not verdict.valid), self._attempts)
                self._doing = "finishing" if verdict.valid else "asking again"
            case Heartbeat():
                pass
            case _:
                self._doing = "thinking"

    def _print(self, line: Line) -> None:
        from rich.text import Text

        text = Text(plain_text(f"{line.mark} {line.text}"), style=STYLES[line.tone])
        try:
            if line.tone in {"warn", "bad"}:
                self._console.print(text, soft_wrap=True)
            else:
                self._console.print(text, no_wrap=True, overflow="ellipsis")
        except OSError:
            _silence(sys.stderr)  # the terminal is gone

    def _status(self) -> "RenderableType":
        from rich.console import Group
        from rich.text import Text

        doing = f"running {shorten(', '.join(self._open_tools.values()))}" if self._open_tools else self._doing
        attempt = f" · attempt {self._attempt} of {self._attempts}" if self._attempts else ""
        elapsed = int(self._clock() - self._began_at)
        self._spinner.update(text=Text(f"{doing}{attempt} · {elapsed // 60}:{elapsed % 60:02d}", style="cyan"))
        return Group(*self._writing.lines(self._console), self._spinner)
