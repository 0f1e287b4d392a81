"""Show the progress of a run, and its end: its result, or its failure and the next steps.

Results go to stdout, everything else to stderr.
"""

import asyncio
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self, TextIO

from ao_protocol.errors import ErrorType
from ao_protocol.events import ErrorInfo, Event, OutputValidation, Result, Terminal
from ao_protocol.lifecycle import note_calls
from ao_runner.cli.message_tail import MessageTail
from ao_runner.cli.options import Style, wants_colour
from ao_runner.cli.printing import console, echo, escaped_line, plain_text, print_exactly, print_json, shorten
from ao_runner.errors import RunnerError
from ao_runner.run_events import Relayed
from ao_runner.runs.journal import Listener, NeverFull
from ao_runner.runs.narration import Narration, NarrationEntry, Nesting, Severity, Weight, describe_usage
from ao_runner.store.records import Run
from ao_runner.store.store import Store

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


STYLES: Final[dict[Severity, str]] = {
    "plain": "", "dim": "dim", "good": "green", "warning": "yellow", "fault": "yellow", "error": "red"
}  # fmt: skip
MAX_MESSAGE_LINES: Final = 6
MAX_SHOWN_ERRORS: Final = 10
MAX_SHOWN_DEPTH: Final = 8
MAX_CALL_CHARACTERS: Final = 80
MAX_SHOWN_STDERR_LINES: Final = 12
HINTS: Final[dict[str, str]] = {
    ErrorType.AUTHENTICATION_FAILED: "export the variable with the provider's key; `ao executors describe NAME` lists "
    "such variables under secrets",
    ErrorType.PERMISSION_DENIED: "the key has no permission for this model or service; check it with the provider",
    ErrorType.RATE_LIMITED: "wait and retry",
    ErrorType.QUOTA_EXCEEDED: "the account's quota is used up; check it with the provider",
    ErrorType.PROVIDER_UNAVAILABLE: "the provider is unavailable; check the network and retry",
    ErrorType.MODEL_NOT_FOUND: "choose another model in the executor's configuration (--config)",
    ErrorType.CONTEXT_WINDOW_EXCEEDED: "start a new session, or reduce the input",
    ErrorType.PARAMETERS_VALIDATION_FAILED: "correct -p, --param or --params to match the agent's parameters_schema",
    ErrorType.INVALID_OUTPUT_SCHEMA: "`ao blueprint check FILE` shows the errors in the schema",
    ErrorType.INVALID_EXECUTOR_CONFIG: "`ao executors describe NAME` shows the accepted configuration",
    ErrorType.OUTPUT_SCHEMA_VALIDATION_FAILED: "no attempt produced a valid answer; be more explicit in the system "
    "prompt, or simplify the schema",
    ErrorType.SCHEMA_VALIDATION_FAILED: "no attempt produced a valid answer; try --output-option max_retries=N or "
    "strategy=auto, or simplify the schema",
    ErrorType.UNSUPPORTED_CAPABILITY: "`ao executors describe NAME` shows the capabilities",
    ErrorType.INPUT_REQUIRED: "`ao inputs` shows what it asks; `ao answer RUN --allow` lets it continue",
    ErrorType.SESSION_NOT_FOUND: "the executor no longer has the session; start a new one with `ao run`",
    ErrorType.DEADLINE_EXCEEDED: "raise --timeout, or give the agent less work",
    ErrorType.DEPENDENCY_MISSING: "`ao doctor` shows what is missing and how to install it",
    ErrorType.MCP_SERVER_UNAVAILABLE: "check the blueprint's mcp_servers: does each server exist, and is it reachable?",
    ErrorType.EXECUTOR_NOT_FOUND: "`ao executors` lists the installed executors",
    ErrorType.EXECUTOR_START_TIMEOUT: "check the executor with `ao doctor`, then retry",
    ErrorType.EXECUTOR_CRASHED: "retry; if it keeps crashing, see its stderr above",
    ErrorType.MISSING_TERMINAL: "this is an error in the executor; see its stderr above",
    ErrorType.PROTOCOL_VIOLATION: "this is an error in the executor; see its stderr above",
}

_NOT_CONTINUED: Final = frozenset(
    {
        ErrorType.AUTHENTICATION_FAILED,
        ErrorType.CONTEXT_WINDOW_EXCEEDED,
        ErrorType.SESSION_NOT_FOUND,
        ErrorType.UNSUPPORTED_CAPABILITY,
    }
)
"""Failures after which another prompt in the same session fails in the same way."""


@dataclass(frozen=True, slots=True)
class ProgressLine:
    """A line for a person. The mark at its beginning shows what kind of line it is."""

    mark: str
    text: str
    severity: Severity = "plain"


class Narrator:
    """The lines for the events of a run, without its end, which is shown separately.

    Args:
        is_verbose: Whether messages, and what the model thought, are not cut.
    """

    def __init__(self, *, is_verbose: bool = False) -> None:
        self._is_verbose = is_verbose
        shown: tuple[Weight, ...] = ("line",)
        self.narration = Narration(Nesting(shown))

    def tell(self, event: Event | Relayed) -> list[ProgressLine]:
        """Return the lines for an event; none for an event that is only for programs or for a page with all details."""
        entries = self.narration.receive(event.body)
        return [line for entry in entries if entry.weight == "line" for line in lines_of(entry, self._is_verbose)]


def lines_of(entry: NarrationEntry, is_verbose: bool) -> list[ProgressLine]:
    """Return an entry as lines: the begin of a message or all of it, or a sentence and the first of its points.

    They are indented by the depth of the entry. Where it does not stand below its call, a line names the call.
    """
    depth = min(len(entry.path), MAX_SHOWN_DEPTH)
    lines = _lines_of_message(entry, is_verbose) if entry.kind == "message" else [
        ProgressLine(entry.mark, shorten(entry.sentence), entry.severity),
        *(ProgressLine(" ", f"  {point}", entry.severity) for point in first_points(entry.points)),
    ]  # fmt: skip
    indented = [replace(line, mark="  " * depth + line.mark) for line in lines]
    if entry.is_below:
        return indented
    call = "an earlier call" if entry.part_of is None else shorten(entry.part_of.sentence, MAX_CALL_CHARACTERS)
    return [ProgressLine("  " * (depth - 1) + "·", f"part of {call}", "dim"), *indented]


def _lines_of_message(entry: NarrationEntry, is_verbose: bool) -> list[ProgressLine]:
    thought = f"thinking: {entry.reasoning.strip()}" if entry.reasoning.strip() else ""
    thoughts, said = _filled_lines(thought if is_verbose else shorten(thought)), _filled_lines(entry.text)
    shown = said if is_verbose else [shorten(line) for line in said[:MAX_MESSAGE_LINES]]
    more = len(said) - len(shown)
    return [
        *(ProgressLine("·", line, "dim") for line in thoughts),
        *(ProgressLine("│", line) for line in shown),
        *([ProgressLine("│", f"… {more} more lines", "dim")] if more else []),
    ]


def _filled_lines(text: str) -> list[str]:
    return [line for line in plain_text(text).strip().splitlines() if line.strip()]


def first_points(points: Sequence[str]) -> list[str]:
    """Return the first of some problems as lines, and how many more there are."""
    more = len(points) - MAX_SHOWN_ERRORS
    return [*map(shorten, points[:MAX_SHOWN_ERRORS]), *([f"… {more} more"] if more > 0 else [])]


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
        with LiveProgress(attempts, is_verbose=is_verbose) as progress:
            yield progress
    else:
        yield PlainProgress(stop, is_verbose=is_verbose)


def _silence(stream: TextIO) -> None:
    """Redirect a stream without a reader to /dev/null, so that the flush of its buffer at the exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _only_progress_is_lost(without_reader: Callable[[], None] = lambda: None) -> Iterator[None]:
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
        with _only_progress_is_lost():
            echo(f"ao: {note}", err=True)


class PlainProgress(NeverFull):
    """The progress of a run as lines of plain text, with the seconds since its start."""

    def __init__(self, stop: Callable[[], None], *, is_verbose: bool) -> None:
        self._stop = stop
        self._narrator = Narrator(is_verbose=is_verbose)
        self._began_at = time.monotonic()

    def on_event(self, relayed: Relayed) -> None:
        """Print the lines for the event."""
        for line in self._narrator.tell(relayed):
            self._print(line)

    def on_note(self, note: str) -> None:
        """Print the note as a line."""
        self._print(ProgressLine("!", note, "warning"))

    def _print(self, line: ProgressLine) -> None:
        elapsed = time.monotonic() - self._began_at
        with _only_progress_is_lost(self._stop):
            echo(f"[{elapsed:6.1f}s] {line.mark} {line.text}".rstrip(), err=True)


class LiveProgress(PlainProgress):
    """The progress of a run on a terminal: past events, the message that is being written, and the current activity."""

    def __init__(self, attempts: int | None, *, is_verbose: bool) -> None:
        from rich.live import Live
        from rich.spinner import Spinner

        super().__init__(stop=lambda: None, is_verbose=is_verbose)
        self._is_verbose = is_verbose
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
        with _only_progress_is_lost():
            self._live.stop()

    def resume(self) -> None:
        """Draw the current activity again."""
        self._live.start()

    def on_event(self, relayed: Relayed) -> None:
        """Print the lines for the event, and update the current activity."""
        lines, body = self._narrator.tell(relayed), relayed.body
        entry = self._narrator.narration.last
        self._writing.receive(body, len(entry.path))
        for line in lines:
            self._print(line)
        note_calls(relayed.document, self._open_tools, {})
        self._doing = entry.doing or self._doing
        if isinstance(body, OutputValidation):
            self._attempts = body.attempt + body.retries_left
            self._attempt = min(body.attempt + (not body.valid), self._attempts)

    def _print(self, line: ProgressLine) -> None:
        from rich.text import Text

        text = Text(plain_text(f"{line.mark} {line.text}"), style=STYLES[line.severity])
        with _only_progress_is_lost():
            if self._is_verbose or line.severity in {"warning", "fault", "error"}:
                self._console.print(text, soft_wrap=True)
            else:
                self._console.print(text, no_wrap=True, overflow="ellipsis")

    def _status(self) -> "RenderableType":
        from rich.console import Group
        from rich.text import Text

        doing = f"running {shorten(', '.join(self._open_tools.values()))}" if self._open_tools else self._doing
        attempt = f" · attempt {self._attempt} of {self._attempts}" if self._attempts else ""
        elapsed = int(time.monotonic() - self._began_at)
        self._spinner.update(text=Text(f"{doing}{attempt} · {elapsed // 60}:{elapsed % 60:02d}", style="cyan"))
        return Group(*self._writing.lines(self._console), self._spinner)


def show_terminal(terminal: Terminal, run: Run, store: Store, began_at: float) -> None:
    """Show the end of a run of a store, and the next steps; it was begun at `began_at` of the monotonic clock."""
    record = store.runs.find_record(run.run_id)
    session, seconds = store.sessions.find(run.session_id), time.monotonic() - began_at
    if isinstance(terminal, Result):
        show_result(terminal)
        for warning in _warnings(terminal):
            echo(f"! {warning}", fg="yellow", err=True)
        echo(f"✓ {describe_result(terminal, seconds)}", fg="green", err=True)
    else:
        rejected_in = run.run_id if record is not None and record.rejected_answers else None
        show_failure(terminal.error, terminal.status, seconds, rejected_in, session.executor_name)
    failed_so = None if isinstance(terminal, Result) else terminal.error.type
    can_continue = (record is None or record.can_resume) and failed_so not in _NOT_CONTINUED
    if session.executor_session_id is not None and can_continue:
        scripted = " --model-script FILE" if session.is_simulated else ""
        echo(f'  continue: ao resume {session.session_id} -p "…"{scripted}', err=True)


def describe_result(result: Result, seconds: float) -> str:
    """Return the end of a run that has a result in a few words: time, attempts if several, tokens and cost."""
    retries = 0 if result.output is None else result.output.retry_count
    attempts = f"{retries + 1} attempts" if retries else ""
    return " · ".join(filter(None, [f"completed in {seconds:.1f} s", attempts, describe_usage(result.usage)]))


def _warnings(result: Result) -> Iterator[str]:
    if result.output is not None:
        if result.output.ambiguous:
            yield "the answer held several values that fit; the last one was taken"
        yield from (f"read leniently: {shorten(edit)}" for edit in result.output.edits or [])


def show_result(result: Result) -> None:
    """Print a result to stdout: text as it is, data as indented JSON."""
    if result.result_text is None:
        print_json(result.result_data)
        return
    print_exactly(result.result_text)


def show_failure(
    error: ErrorInfo,
    status: str,
    seconds: float | None = None,
    rejected_in: str | None = None,
    executor: str = "NAME",
) -> None:
    """Print a failure and the remedy to stderr; see `show_terminal`."""
    for number, line in enumerate(lines_of_failure(error, status, seconds, rejected_in, executor)):
        colour = None if number else "yellow" if status == "cancelled" else "red"
        echo(f"{line.mark} {line.text}", fg=colour, bold=not number, err=True)


def lines_of_failure(
    error: ErrorInfo,
    status: str,
    seconds: float | None = None,
    rejected_in: str | None = None,
    executor: str = "NAME",
) -> Iterator[ProgressLine]:
    """Return a failure and its remedy as lines.

    Args:
        error: Why the run failed.
        status: `failed` or `cancelled`.
        seconds: How long the run took, if that is known.
        rejected_in: The id of the run, if it has rejected answers to look at.
        executor: The name of the executor in the remedies.
    """
    took = "" if seconds is None else f" after {seconds:.1f} s"
    yield ProgressLine("✗", f"{status}{took}: {shorten(error.type)}", "warning" if status == "cancelled" else "error")
    problems = error.validation_errors or []
    head, repeated, _ = error.message.partition(problems[0]) if problems else (error.message, "", "")
    message = head.rstrip(" :;") if repeated and head else error.message  # without the problems listed below
    yield ProgressLine(" ", shorten(message, 2000))
    yield from (ProgressLine(" ", f"  {point}") for point in first_points(problems))
    last_words = (error.details or {}).get("stderr_tail")
    if isinstance(last_words, str):
        yield ProgressLine(" ", "end of its stderr:")
        for line in last_words.strip().splitlines()[-MAX_SHOWN_STDERR_LINES:]:
            yield ProgressLine(" ", f"  {shorten(line)}")
    hint = HINTS.get(error.type, "").replace("NAME", executor)
    if not isinstance(last_words, str):
        hint = hint.replace("see its stderr above", "run it by hand: it wrote nothing to stderr")
    if hint:
        yield ProgressLine(" ", f"what to do: {hint}")
    if rejected_in is not None:
        yield ProgressLine(" ", f"rejected answers: ao result {rejected_in} --attempts")
