"""Turn the bytes of an executor's stdout into the events of one run. No process and no clock: literals can test it.

Tolerant and loud. The output is always a complete and valid run, whatever the executor wrote: it begins with
`run_started`, `seq` has no gap, every tool call is closed, and there is exactly one terminal event. Everything that is
dropped or corrected becomes a `log` event and a problem; after the first one, the runner counts `seq` itself. No output
contains a secret. Only the `message` event completes a message: deltas are held back while they may be the beginning of
a secret, and `conclude` releases them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ao_protocol.events import (
    Body,
    Failure,
    InputResolved,
    InvalidEvent,
    Log,
    Result,
    RunStarted,
    Terminal,
    ToolFinished,
    UsageFigures,
    check_event,
)
from ao_protocol.framing import EndedMidLine, LineSplitter, LineTooLong, NotIJson, decode_object, encode_line
from ao_protocol.lifecycle import (
    EventOutOfOrder,
    InputNotPaired,
    KnownOfRun,
    Phase,
    RunLifecycle,
    SequenceBroken,
    ToolNotPaired,
    WrongRun,
    complete_event,
)
from ao_protocol.redaction import NO_SECRETS, Redactor
from ao_protocol.short_text import shorten
from ao_protocol.version import CURRENT
from ao_protocol.wire import JsonObject
from ao_runner.run_events import Relayed, RunIdentity, as_event_of
from ao_runner.runs.event_redaction import EventRedactor
from ao_runner.runs.outcome import MAX_NOISE_BYTES, MAX_NOISE_LINES

_TERMINALS: Final = frozenset({"result", "failure"})
_OPENING: Final = frozenset({"tool_started", "input_requested"})
MAX_TOLD_PROBLEMS: Final = 20
"""Maximum number of problems that become `log` events and enter the record; further ones are only counted."""
MAX_QUOTED_CHARACTERS: Final = 80
MOST_OPEN_TOOLS: Final = 1000
"""Parallel agents have a few dozen. Every acknowledgement stores the open calls, so that they can be closed later."""
MOST_REQUESTS: Final = 1000
"""Maximum number of requests of a run to a person; the ids of all of them are kept."""
MOST_CHARACTERS: Final = 256 * 1024
"""Maximum total length of the ids and names of open tool calls, so that no run exhausts a worker's memory (AOX-233)."""


def unchanged(terminal: Terminal) -> Terminal:
    """Return a terminal event as it is."""
    return terminal


@dataclass
class Conversation:
    """Takes chunks, then the end of the stream, and returns the events to relay.

    `timestamp` returns the time for events that the runner creates. `settle` may replace the terminal event, see
    `ao_runner.runs.outcome`; `redactor` removes secrets from events and problems. Processing 256 KiB of typical events
    takes about ten milliseconds.
    """

    identity: RunIdentity
    max_line_bytes: int
    timestamp: Callable[[], str]
    settle: Callable[[Terminal], Terminal] = unchanged
    schema_version: str = str(CURRENT)
    redactor: Redactor = NO_SECRETS
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0
    late_problems: list[str] = field(default_factory=list)
    """The problems without a `log` event, because they occurred after the terminal event."""
    terminal: Terminal | None = None
    """The terminal event as relayed, redacted."""
    said: Terminal | None = None
    """The terminal event before it was settled; the exit code has to match this one."""
    has_started: bool = False
    """True once the executor itself sent `run_started`."""
    has_heartbeats: bool = False
    event_count: int = 0
    """The number of accepted events of the executor."""
    has_long_event: bool = False
    """Whether an event was dropped because it exceeds the size limit."""

    def __post_init__(self) -> None:
        self._lines = LineSplitter(self.max_line_bytes)
        self._lifecycle = RunLifecycle(self.identity.run_id, self.identity.session_id)
        self._known = KnownOfRun(
            self.identity.run_id, self.identity.session_id, self.identity.executor.model_dump(), self.schema_version
        )
        self._last_seq = 0
        self._held_back: list[Log] = []
        self._left_out = 0
        self._noise_lines = 0
        self._noise_bytes = 0
        self._usage: Relayed | None = None
        has_secrets = bool(self.redactor.values)
        self._redaction = EventRedactor(self.redactor, self.identity, self.timestamp) if has_secrets else None

    @property
    def has_said_nothing(self) -> bool:
        """Whether only blank lines arrived; the end of stdout does not count."""
        return self._last_seq == 0 and self.problem_count == 0

    @property
    def is_too_noisy(self) -> bool:
        """Whether the dropped input exceeds the limit, so that no more is read."""
        return self._noise_lines > MAX_NOISE_LINES or self._noise_bytes > MAX_NOISE_BYTES

    @property
    def is_within_an_event(self) -> bool:
        """Whether the pending part of a line may be the beginning of an event."""
        return self._lines.begun[:1] == b"{"

    @property
    def has_open_requests(self) -> bool:
        """Whether the run waits for a person."""
        return bool(self._lifecycle.open_requests)

    def receive(self, chunk: bytes) -> list[Relayed]:
        """Process the next bytes and return the events that they complete; return none once the input is too noisy."""
        relayed: list[Relayed] = []
        if self.is_too_noisy:
            return relayed
        lines = self._lines.feed(chunk)
        if not lines and self._lines.is_skipping:
            self._noise_bytes += len(chunk)
        for line in lines:
            taken_before = self.event_count
            relayed += self._each_in_turn(self._take_line(line))
            if self.event_count == taken_before:
                self._note_noise(line)
                if self.is_too_noisy:
                    break
        return self._let_out(relayed)

    def end_of_stream(self) -> Iterator[Relayed]:
        """Process the end of stdout."""
        relayed: list[Relayed] = []
        try:
            self._lines.end()
        except EndedMidLine as error:
            relayed += self._each_in_turn(self._tell("the last line has no line end"))
            relayed += self._each_in_turn(self._receive_line(error.tail))
        yield from self._let_out([*relayed, *([] if self._redaction is None else self._redaction.flush())])

    def conclude(self, terminal: Terminal) -> Iterator[Relayed]:
        """End the run with an event of the runner, unless the executor has ended it."""
        if self.terminal is None:
            yield from self._let_out(self._each_in_turn(self._end_run(terminal, None)))

    def _take_line(self, line: bytes | LineTooLong) -> Iterable[Relayed]:
        if isinstance(line, LineTooLong):
            self._left_out += 1
            self.has_long_event = self.has_long_event or line.may_be_object
            return self._tell(f"{line}; dropped it")
        if self._is_more_noise(line):
            self._left_out += 1
            self.problem_count += 1
            return ()
        return self._receive_line(line) if line.strip() else ()

    def _note_noise(self, line: bytes | LineTooLong) -> None:
        self._noise_lines += 1
        self._noise_bytes += line.limit_bytes if isinstance(line, LineTooLong) else len(line) + 1

    def _is_more_noise(self, line: bytes) -> bool:
        """Return whether a line is not an event and only counted; it is not parsed, so a flood delays no other run."""
        is_untold = self.problem_count >= MAX_TOLD_PROBLEMS
        return is_untold and b'"event_type"' not in line and b"\\u" not in line and line.strip() != b""

    def _each_in_turn(self, items: Iterable[Relayed]) -> list[Relayed]:
        if self._redaction is None:
            return list(items)
        return [due for item in items for due in self._redaction.in_turn(item)]

    def _let_out(self, items: list[Relayed]) -> list[Relayed]:
        shown = items if self._redaction is None else self._redaction.let_out(items)
        if shown is not items and shown[-1].event_type in _TERMINALS:
            body = shown[-1].body
            self.terminal = body if isinstance(body, Result | Failure) else self.terminal
        return shown

    def _receive_line(self, line: bytes) -> Iterator[Relayed]:
        try:
            document, whole = self._read(line)
        except InvalidEvent as error:
            self._left_out += 1
            yield from self._tell(self._unreadable(line, error))
            return
        event_type = document["event_type"]
        if self.terminal is not None:
            self.complain(f"{event_type!r} came after the terminal event and was dropped")
            return
        complaint = self._check(document)
        if complaint is not None:
            sentence, is_usable = complaint
            yield from self._tell(sentence if is_usable else f"{sentence}; dropped the event")
            if not is_usable:
                return
        self.event_count += 1
        received = Relayed.unread(document, whole)
        if event_type in _TERMINALS:
            yield from self._end_run(received.body, received)  # type: ignore[arg-type]  # its type says so
        elif event_type == "run_started":
            self.has_started = True
            yield self._relay(received, document)
            yield from self._release()
        else:
            self.has_heartbeats = self.has_heartbeats or event_type == "heartbeat"
            if event_type == "usage":
                self._usage = received
            if self._last_seq == 0 or self._held_back:
                yield from self._begin()
            yield self._relay(received, document)

    def _read(self, line: bytes) -> tuple[JsonObject, bytes]:
        """Return the event of a line and its own line, with the defaults for omitted fields (SPEC 5.2).

        Raises:
            InvalidEvent: The line is not an event, even with the defaults.
        """
        try:
            document = decode_object(line)
        except NotIJson as error:
            raise InvalidEvent(None, [str(error)]) from error
        now = "" if "timestamp" in document else self.timestamp()
        following, tools = self._lifecycle.last_seq + 1, self._lifecycle.open_tools
        whole = complete_event(document, self._known, seq=following, timestamp=now, open_tools=tools)
        check_event(whole)
        return (whole, line if whole is document else encode_line(whole).rstrip(b"\n"))

    def _check(self, event: JsonObject) -> tuple[str, bool] | None:
        """Return the problem of an event and whether the event can still be relayed, or None if it has no problem."""
        was_unnamed = self._lifecycle.unnamed is not None
        try:
            self._lifecycle.receive(event)
        except SequenceBroken as error:
            # Lost events stay lost; the event that arrived counts. It must still pass the other rules.
            self._lifecycle.expect(error.found)
            following = self._check(event)
            left_out, self._left_out = self._left_out, 0
            if 0 < error.found - error.expected <= left_out:
                return following  # the gap was already reported
            return (str(error), True) if following is None else (f"{error}; {following[0]}", following[1])
        except (ToolNotPaired, InputNotPaired) as error:
            return str(error), event["event_type"] in _TERMINALS
        except EventOutOfOrder as error:
            return self._check_early(error, event)
        except WrongRun as error:
            return self._check_unnamed(error, event) if was_unnamed else (str(error), False)
        return self._check_room(event) if event["event_type"] in _OPENING else None

    def _check_room(self, event: JsonObject) -> tuple[str, bool] | None:
        if event["event_type"] == "input_requested":
            return self._check_requests(str(event["request_id"]))
        call = str(event["tool_call_id"])
        open_tools = self._lifecycle.open_tools
        if len(open_tools) <= MOST_OPEN_TOOLS and sum(map(len, (*open_tools, *open_tools.values()))) <= MOST_CHARACTERS:
            return None
        others = len(open_tools) - 1
        self._lifecycle.forget_tool(call)
        return f"too many tool calls are open ({others})", False

    def _check_requests(self, request_id: str) -> tuple[str, bool] | None:
        requests = self._lifecycle.requests
        if len(requests) <= MOST_REQUESTS and sum(map(len, requests)) <= MOST_CHARACTERS:
            return None
        del requests[request_id]
        return f"too many requests for input were made ({len(requests)})", False

    def _check_unnamed(self, error: WrongRun, event: JsonObject) -> tuple[str, bool] | None:
        """Report `run_started`, which named no run although the executor could read the invocation."""
        self._lifecycle.expect(self._lifecycle.last_seq)
        following = self._check(event)
        return (str(error), True) if following is None else following

    def _check_early(self, error: EventOutOfOrder, event: JsonObject) -> tuple[str, bool] | None:
        if self._lifecycle.phase is not Phase.INVOKED:
            return str(error), False
        self._lifecycle.begin_unannounced()
        self._lifecycle.expect(self._lifecycle.last_seq)
        following = self._check(event)
        return (str(error), True) if following is None else (f"{error}; {following[0]}", following[1])

    def _tell(self, problem: str) -> Iterator[Relayed]:
        self.complain(problem)
        if self.terminal is None and self.problem_count <= MAX_TOLD_PROBLEMS:
            self._held_back.append(Log(level="warning", message=f"the executor broke the protocol: {problem}"))
        if self._last_seq > 0:
            yield from self._release()

    def complain(self, problem: str) -> None:
        """Record a problem without a `log` event."""
        self.problem_count += 1
        if self.problem_count <= MAX_TOLD_PROBLEMS:
            problem = self.redactor.text(problem)
            self.problems.append(problem)
            if self.terminal is not None:
                self.late_problems.append(problem)

    def _unreadable(self, line: bytes, error: InvalidEvent) -> str:
        text = line.decode(errors="replace")
        if self.redactor.data(line) != line:
            # The error also quotes the line, and may cut the secret in two.
            return "dropped a line that is not an event (not shown: it contains a secret)"
        return f"{error}; dropped the line: {shorten(text, MAX_QUOTED_CHARACTERS)!r}"

    def _begin(self) -> Iterator[Relayed]:
        if self._last_seq == 0:
            yield self._write(RunStarted(schema_version=self.schema_version, executor=self.identity.executor))
        yield from self._release()

    def _release(self) -> Iterator[Relayed]:
        for log in self._held_back:
            yield self._write(log)
        self._held_back.clear()

    def _end_run(self, body: Terminal, received: Relayed | None) -> Iterator[Relayed]:
        yield from self._begin()
        for request_id in self._lifecycle.open_requests:
            yield self._write(InputResolved(request_id=request_id, outcome="cancelled", by="policy"))
        for call, name in reversed(self._lifecycle.open_tools.items()):  # parts end before their call
            error = "the run ended before the tool call did"
            yield self._write(ToolFinished(tool_call_id=call, tool_name=name, status="cancelled", error=error))
        untold = self.problem_count - MAX_TOLD_PROBLEMS
        if untold > 0:
            yield self._write(Log(level="warning", message=f"and {untold} more problems of this kind"))
        self.said = body
        settled = self.settle(body)
        if received is not None and settled is body:
            relayed = self._relay(received, received.document)
        else:
            settled = self._with_usage(settled, body)
            relayed = self._write(settled)
        self.terminal = settled
        yield relayed

    def _with_usage(self, settled: Terminal, body: Terminal) -> Terminal:
        """Return an event of the runner with the figures that the executor told last."""
        told = body.usage or (self._usage and self._usage.body)
        if settled.usage is not None or not isinstance(told, UsageFigures):
            return settled
        return settled.model_copy(update={"usage": UsageFigures.model_validate(told.model_dump())})

    def _relay(self, received: Relayed, document: JsonObject) -> Relayed:
        self._last_seq += 1
        names = document["run_id"], document["session_id"]
        # The refusal of an unreadable line names no run (AOX-043).
        if received.seq == self._last_seq and names == (self.identity.run_id, self.identity.session_id):
            return received
        return as_event_of(self.identity, self._last_seq, received.body, received, self.timestamp)

    def _write(self, body: Body) -> Relayed:
        self._last_seq += 1
        return as_event_of(self.identity, self._last_seq, body, None, self.timestamp)
