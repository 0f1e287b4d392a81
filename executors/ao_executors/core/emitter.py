"""Number and write the events of one run, exactly one of them terminal, as valid lines (SPEC 5).

Internal, except for `EventTooLarge` and `Emitter`, which `ao_executors.core` exports. An executor has its `Emitter` as
`task.events`.

Only an event that is not a valid line is changed, by `ao_executors.core.fitting`.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from ao_protocol.errors import ErrorType
from ao_protocol.framing import MAX_EVENT_BYTES, encode_line

if TYPE_CHECKING:
    from ao_protocol.events import Body
    from ao_protocol.redaction import Redactor

_Fields: TypeAlias = Mapping[str, object]

_MAX_NAMED_CHARACTERS: Final = 500
_COST_DIGITS: Final = 9
_CALL_IDS: Final = ("tool_call_id", "parent_tool_call_id")
_NO_PROGRESS: Final = frozenset({"heartbeat", "log"})


class EventTooLarge(ValueError):
    """An event exceeds the line limit, and it cannot be cut to fit.

    Args:
        event_type: The type of the event.
        size_bytes: The length of its line in bytes.
        limit_bytes: The limit in bytes, `limits.max_event_bytes`.
    """

    def __init__(self, event_type: object, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(event_type, size_bytes, limit_bytes)
        self.event_type = event_type
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        return (
            f"the {self.event_type} event has {self.size_bytes} bytes and {self.limit_bytes} are allowed; "
            f"raise limits.max_event_bytes to at least {self.size_bytes}"
        )


def _utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Emitter:
    """The writer of a run's events. After the terminal event `ended` is True, and further events are dropped.

    An executor calls `emit`, or the methods for certain events. Texts in lines over `max_event_bytes` are cut.
    Payloads, such as a tool's input, may be any JSON.

    Args:
        write: Receives one whole line at a time.
        run_id: The run's id on every event.
        session_id: The session's id on every event.
        secrets: Values that `ao_protocol.redaction` removes from the strings of every line (AOX-198).
        now: Returns the timestamp of an event.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        *,
        run_id: str | None,
        session_id: str | None,
        secrets: Iterable[str] = (),
        now: Callable[[], str] = _utc_now,
    ) -> None:
        self.max_event_bytes = MAX_EVENT_BYTES
        self.seq = 0
        self.last_progress_seq = 0
        self.ended = False
        self.is_busy = False
        """True while an event is being written; for signal handlers."""
        self.may_have_changed_something = False
        """True once a tool or an MCP server is started."""
        self.bound_session: str | None = None
        """The `executor_session_id` of the last `session_bound`."""
        self.open_tools: dict[str, tuple[str, Any]] = {}
        """Name and input of each tool call that has begun and not ended, by its id."""
        self.known_tools: set[str] = set()
        """The ids of all tool calls of the run, as the events have them."""
        self._write = write
        self._identity = {"session_id": session_id, "run_id": run_id}
        self._now = now
        self._redactor = _redactor_of(tuple(secret for secret in secrets if secret))
        self._told_ids: dict[str, str] = {}
        """The id that events have, by the id of a call that an earlier call of the run had, too."""
        self._parents: dict[str, str] = {}
        """The open call of which an open call is part, by the id of the part."""
        self._open_requests: dict[str, None] = {}
        self._retry_at = 0.0
        self._usage: dict[str, Any] = {}

    def for_next_run(self, run_id: str) -> "Emitter":
        """Return the emitter of another run in the same session, with `seq` from 1.

        Args:
            run_id: The id of that run.

        Returns:
            An emitter with the same session, secrets and line limit.
        """
        following = Emitter(self._write, run_id=run_id, session_id=self._identity["session_id"], now=self._now)
        following._redactor, following.max_event_bytes = self._redactor, self.max_event_bytes
        following.bound_session = self.bound_session
        return following

    @property
    def side_effects(self) -> str:
        """`none` until a tool or an MCP server is started, then `possible` (SPEC 6)."""
        return "possible" if self.may_have_changed_something else "none"

    @property
    def phase(self) -> 'Literal["model", "tool", "retry_wait", "input"]':
        """The `phase` of a heartbeat: what the run waits for."""
        if self._open_requests:
            return "input"
        if time.monotonic() < self._retry_at:
            return "retry_wait"
        return "tool" if self.open_tools else "model"

    def settled_length(self, text: str) -> int:
        """Return how many characters of a growing text cannot be the beginning of a secret.

        Args:
            text: The text that is not written yet.

        Returns:
            The length of the part that can be written without the rest.
        """
        return len(text) if self._redactor is None else self._redactor.settled_length(text)

    def emit(self, body: "Body") -> None:
        """Write an event.

        Args:
            body: The event without its envelope, such as `ToolStarted(…)` of `ao_protocol.events`.

        Raises:
            EventTooLarge: The line is too long and cannot be cut to fit.
            NobodyReads: The read end of stdout is closed.
        """
        from ao_protocol.events import body_fields

        self.emit_fields(body.event_type, body_fields(body))

    def emit_fields(self, event_type: str, fields: _Fields) -> None:
        """Write an event, given as its wire fields.

        Args:
            event_type: The type of the event.
            fields: Its fields without the envelope.

        Raises:
            EventTooLarge: The line is too long and cannot be cut to fit.
            NobodyReads: The read end of stdout is closed.
        """
        if self.ended:
            return
        self.is_busy = True
        try:
            self._write_event(event_type, fields)
        finally:
            self.is_busy = False

    def warn(self, message: str) -> None:
        """Write a `log` event of the level `warning`.

        Args:
            message: What happened, and what to do.

        Raises:
            NobodyReads: The read end of stdout is closed.
        """
        self.emit_fields("log", {"level": "warning", "message": message})

    def warn_unfinished(self, message: str, call_id: str | None = None) -> None:
        """Warn of work that the end of the run ends, for people as `log` and for programs as `_ao/unfinished`.

        Args:
            message: What does not end by itself.
            call_id: The call whose work it is; None for a process that a call has left running.

        Raises:
            NobodyReads: The read end of stdout is closed.
        """
        self.warn(message)
        self.emit_fields("_ao/unfinished", {"message": message} | ({"tool_call_id": call_id} if call_id else {}))

    def start_tool(self, call_id: str, name: str, tool_input: object = None, parent: str | None = None) -> None:
        """Write `tool_started`; nothing for a call that is open.

        Some providers give each answer's calls the same ids. A call with the id of one that has ended has an id of its
        own in the events, such as `call_1.2`; the executor goes on with the provider's.

        Args:
            call_id: The id of the call.
            name: The name of the tool.
            tool_input: Its input, as JSON.
            parent: The id of the call whose work this call is part of; one that is not open is left out (AOX-095).

        Raises:
            EventTooLarge: The line is too long and cannot be cut to fit.
            NobodyReads: The read end of stdout is closed.
            ValidationError: A field is not valid in the protocol.
        """
        from ao_protocol.events import ToolStarted

        if call_id not in self.open_tools:
            if call_id in self.known_tools:
                numbered = (f"{call_id}.{number}" for number in count(2))
                self._told_ids[call_id] = next(one for one in numbered if one not in self.known_tools)
            part_of = parent if parent in self.open_tools else None
            fields: Any = {"tool_call_id": call_id, "tool_name": name, "tool_input": tool_input}
            self.emit(ToolStarted(**fields, parent_tool_call_id=part_of))

    def finish_tool(self, call_id: str, status: str, **outcome: object) -> None:
        """Write `tool_finished`, with name and input of the call; nothing for a call that is not open.

        Calls that are part of it and still open end first, as `cancelled` (AOX-095).

        Args:
            call_id: The id of the call.
            status: `completed`, `failed`, `denied` or `cancelled`.
            outcome: `tool_output`, `error`, or a `tool_input` that was not known at the start.

        Raises:
            EventTooLarge: The line is too long and cannot be cut to fit.
            NobodyReads: The read end of stdout is closed.
            ValidationError: A field is not valid in the protocol.
        """
        from ao_protocol.events import ToolFinished

        if call_id in self.open_tools:
            for part in [part for part, parent in self._parents.items() if parent == call_id]:
                self.finish_tool(part, "cancelled", error="the call that it is part of ended first")
            name, tool_input = self.open_tools[call_id]
            fields: Any = {"tool_input": tool_input, **outcome}
            self.emit(ToolFinished(tool_call_id=call_id, tool_name=name, status=cast("Any", status), **fields))

    def add_usage(self, figures: Mapping[str, float | None]) -> None:
        """Write `usage` with the figures so far and those that are added.

        Args:
            figures: The figures to add, by their names in the protocol; None for one that is not known.

        Raises:
            NobodyReads: The read end of stdout is closed.
            ValidationError: A sum is not valid in the protocol.
        """
        from ao_protocol.events import Usage

        known = {name: count for name, count in figures.items() if count is not None}
        sums = {name: round(self._usage.get(name, 0) + count, _COST_DIGITS) for name, count in known.items()}
        self.emit(Usage.model_validate(self._usage | sums))

    def end(self, event_type: str, fields: _Fields) -> None:
        """Write the terminal event, after an end for each request and each tool call that is still open.

        A warning names each call that a result leaves unfinished: nobody will see how it ends.

        If it has no `usage`, it gets the figures of the last `usage` event: a run that failed has used them, too.

        Args:
            event_type: `result` or `failure`.
            fields: The fields of the event without the envelope.

        Raises:
            EventTooLarge: The line is too long and cannot be cut to fit.
            NobodyReads: The read end of stdout is closed.
        """
        for request in list(self._open_requests):
            resolved = {"request_id": request, "outcome": "cancelled", "by": "policy"}
            self.emit_fields("input_resolved", resolved)
        error = fields.get("error")
        is_parked = isinstance(error, Mapping) and error.get("type") == ErrorType.INPUT_REQUIRED
        status = "cancelled" if is_parked or fields.get("status") == "cancelled" else "failed"
        for call, (name, tool_input) in reversed(list(self.open_tools.items())):  # parts end before their call
            if event_type == "result":
                given = json.dumps(tool_input, ensure_ascii=False)[:_MAX_NAMED_CHARACTERS]
                message = f"the run ends before its call of {name} does, which is ended with it: {given}"
                self.warn_unfinished(message, call)
            finished = {"tool_call_id": call, "tool_name": name, "status": status, "error": "the run ended first"}
            self.emit_fields("tool_finished", finished)
        if self._usage and "usage" not in fields:
            fields = {**fields, "usage": self._usage}
        self.emit_fields(event_type, fields)
        self.ended = True

    def _write_event(self, event_type: str, fields: _Fields) -> None:
        envelope = {"event_type": event_type, **self._identity, "seq": self.seq + 1, "timestamp": self._now()}
        given = {name: fields[name] for name in _CALL_IDS if fields.get(name) in self._told_ids}
        fields = {**fields, **{name: self._told_ids[cast("str", call)] for name, call in given.items()}}
        try:
            line = encode_line({**envelope, **fields})
        except ValueError as error:
            from ao_executors.core.fitting import interoperable_fields

            fields = interoperable_fields(event_type, fields, error)
            line = encode_line({**envelope, **fields})
        if len(line) > self.max_event_bytes:
            from ao_executors.core.fitting import shortened_line

            size_bytes, shorter = len(line), shortened_line({**envelope, **fields}, self.max_event_bytes)
            if shorter is None:
                raise EventTooLarge(event_type, size_bytes, self.max_event_bytes)
            line = shorter
        line = line if self._redactor is None else _without_secrets(line, self._redactor)
        if event_type not in _NO_PROGRESS:
            self._retry_at = 0.0
            self.last_progress_seq = self.seq + 1
        if event_type == "tool_started":
            self.known_tools.add(str(fields["tool_call_id"]))
        self._remember(event_type, {**fields, **given})
        self.seq += 1
        self._write(line)

    def _remember(self, event_type: str, fields: _Fields) -> None:
        match event_type:
            case "retry_scheduled":
                self._retry_at = time.monotonic() + cast("float", fields["delay_seconds"])
            case "usage":
                self._usage = dict(fields)
            case "session_bound":
                self.bound_session = str(fields["executor_session_id"])
            case "tool_started":
                self.may_have_changed_something = True
                call = str(fields["tool_call_id"])
                self.open_tools[call] = (str(fields["tool_name"]), fields.get("tool_input"))
                if fields.get("parent_tool_call_id") is not None:
                    self._parents[call] = str(fields["parent_tool_call_id"])
            case "tool_finished":
                self.open_tools.pop(str(fields["tool_call_id"]), None)
                self._parents.pop(str(fields["tool_call_id"]), None)
            case "input_requested":
                self._open_requests[str(fields["request_id"])] = None
            case "input_resolved":
                self._open_requests.pop(str(fields["request_id"]), None)


@lru_cache(maxsize=1)
def _redactor_of(secrets: tuple[str, ...]) -> "Redactor | None":
    """Return what removes secrets from the strings of a line. Without secrets it imports nothing."""
    if not secrets:
        return None
    from ao_protocol.redaction import Redactor

    return Redactor({str(number): secret for number, secret in enumerate(secrets)})


def _without_secrets(line: bytes, redactor: "Redactor") -> bytes:
    without = redactor.line(line)
    # Two keys of a payload that were different secrets are equal now. Parsing keeps one of them.
    return line if without is line else encode_line(json.loads(without))
