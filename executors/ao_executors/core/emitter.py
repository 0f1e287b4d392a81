"""Number and write the events of one run, exactly one of them terminal, as valid lines (SPEC 5).

Internal, except for `EventTooLarge` and `Emitter`, which `ao_executors.core` exports. An executor has its `Emitter` as
`task.events`.

Only an event that is not a valid line is changed. In a payload, such as a tool's input, an integer outside +-(2^53-1),
NaN and an infinity become their text, and a value that is nested too deep becomes its JSON text. The protocol's own
numbers stay: a usage figure out of range is an error. In a line that is too long, texts that may be cut are cut, with
`truncated` and `original_bytes` (AOX-028, AOX-029). Data under an output contract is never cut.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from ao_protocol.errors import ErrorType
from ao_protocol.framing import MAX_DEPTH, MAX_EVENT_BYTES, MAX_SAFE_INTEGER, NotIJson, encode_line

if TYPE_CHECKING:
    from ao_protocol.events import Body
    from ao_protocol.redaction import Redactor

_Fields: TypeAlias = Mapping[str, object]

_MAX_NAMED_CHARACTERS: Final = 500
_COST_DIGITS: Final = 9
_NO_PROGRESS: Final = frozenset({"heartbeat", "log"})
_PAYLOADS: Final = frozenset({"tool_input", "tool_output", "result_data", "schema"})
_FIRST_LEVEL: Final = 2
"""The level of a container in a field of an event; the event itself is level 1."""
_CUTTABLE: Final[Mapping[object, tuple[str, ...]]] = {
    "message": ("content",),
    "message_delta": ("content",),
    "tool_started": ("tool_input",),
    "tool_finished": ("tool_output", "tool_input", "error"),
    "log": ("message",),
    "result": ("result_text",),
}
"""The fields that hold text, or a value that can be written as text. The largest of them is cut first."""


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

    An executor calls `emit`. Texts in lines over `max_event_bytes` are cut. Payloads, such as a tool's input, may be
    any JSON.

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
        self._write = write
        self._identity = {"session_id": session_id, "run_id": run_id}
        self._now = now
        self._redactor = _redactor_of(tuple(secret for secret in secrets if secret))
        self.open_tools: dict[str, tuple[str, Any]] = {}
        """Name and input of each tool call that has begun and not ended, by its id."""
        self.known_tools: set[str] = set()
        """The ids of all tool calls of the run."""
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

    def start_tool(self, call_id: str, name: str, tool_input: object = None) -> None:
        """Write `tool_started`; nothing for a call that has begun before.

        Args:
            call_id: The id of the call.
            name: The name of the tool.
            tool_input: Its input, as JSON.

        Raises:
            EventTooLarge: The line is too long and cannot be cut to fit.
            NobodyReads: The read end of stdout is closed.
            ValidationError: A field is not valid in the protocol.
        """
        from ao_protocol.events import ToolStarted

        if call_id not in self.known_tools:
            fields: Any = {"tool_call_id": call_id, "tool_name": name, "tool_input": tool_input}
            self.emit(ToolStarted(**fields))

    def finish_tool(self, call_id: str, status: str, **outcome: object) -> None:
        """Write `tool_finished`, with name and input of the call; nothing for a call that is not open.

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
        for call, (name, tool_input) in list(self.open_tools.items()):
            if event_type == "result":
                given = json.dumps(tool_input, ensure_ascii=False)[:_MAX_NAMED_CHARACTERS]
                self.warn(f"the run ends before its call of {name} does, which is ended with it: {given}")
            finished = {"tool_call_id": call, "tool_name": name, "status": status, "error": "the run ended first"}
            self.emit_fields("tool_finished", finished)
        if self._usage and "usage" not in fields:
            fields = {**fields, "usage": self._usage}
        self.emit_fields(event_type, fields)
        self.ended = True

    def _write_event(self, event_type: str, fields: _Fields) -> None:
        envelope = {"event_type": event_type, **self._identity, "seq": self.seq + 1, "timestamp": self._now()}
        try:
            line = encode_line({**envelope, **fields})
        except ValueError as error:
            fields = _interoperable_fields(event_type, fields, error)
            line = encode_line({**envelope, **fields})
        if len(line) > self.max_event_bytes:
            line = shrink({**envelope, **fields}, self.max_event_bytes)
        line = line if self._redactor is None else _without_secrets(line, self._redactor)
        if event_type not in _NO_PROGRESS:
            self._retry_at = 0.0
            self.last_progress_seq = self.seq + 1
        self._remember(event_type, fields)
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
                self.known_tools.add(call)
                self.open_tools[call] = (str(fields["tool_name"]), fields.get("tool_input"))
            case "tool_finished":
                self.open_tools.pop(str(fields["tool_call_id"]), None)
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


def _interoperable_fields(event_type: str, fields: _Fields, refusal: ValueError) -> dict[str, object]:
    """Return the fields of an event with its payloads as I-JSON. In a vendor event every field is payload, but NaN."""
    if event_type.startswith("_") and not isinstance(refusal, NotIJson):
        raise refusal
    is_payload = fields.keys() if event_type.startswith("_") else _PAYLOADS
    changed = {
        name: _interoperable(value, _FIRST_LEVEL) if name in is_payload else value for name, value in fields.items()
    }
    error = changed.get("error")
    if isinstance(error, Mapping) and "details" in error:
        changed["error"] = {**error, "details": _interoperable(error["details"], _FIRST_LEVEL + 1)}
    return changed


def _interoperable(value: object, level: int) -> object:
    """Return a value as I-JSON. `level` is the nesting level in the line, from 1, that it has if it is a container."""
    if isinstance(value, int | float):
        is_safe = isfinite(value) if isinstance(value, float) else abs(value) <= MAX_SAFE_INTEGER
        return value if is_safe else str(value)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if level > MAX_DEPTH:
        try:
            return json.dumps(value, ensure_ascii=False)
        except RecursionError:
            return "… (nested too deep to be shown)"
    if isinstance(value, Mapping):
        return {name: _interoperable(member, level + 1) for name, member in value.items()}
    return [_interoperable(item, level + 1) for item in value]


def shrink(document: _Fields, limit_bytes: int) -> bytes:
    """Return a line of at most `limit_bytes` for an event whose line is longer.

    Raises:
        EventTooLarge: Cutting would falsify the event, or is not enough.
    """
    match document["event_type"]:
        case "failure":
            candidates = _shorter_failures(document, limit_bytes)
        case "output_validation":
            room = limit_bytes - _size({**document, "errors": []})
            candidates = iter([{**document, "errors": _first_that_fit(document["errors"], room)}])
        case event_type:
            candidates = _shorter_texts(document, limit_bytes, _CUTTABLE.get(event_type, ()))
    for candidate in candidates:
        line = encode_line(candidate)
        if len(line) <= limit_bytes:
            return line
    raise EventTooLarge(document["event_type"], _size(document), limit_bytes)


def _shorter_texts(document: _Fields, limit_bytes: int, names: tuple[str, ...]) -> Iterator[_Fields]:
    texts = {name: _text_of(document[name]) for name in names if document.get(name) is not None}
    sizes = {name: len(text.encode(errors="replace")) for name, text in texts.items()}
    shorter = {**document, "truncated": True, "original_bytes": sum(sizes.values())}
    original_bytes = 0
    for name in sorted(texts, key=lambda name: -sizes[name]):
        given = document[name]
        room = limit_bytes - _size({**shorter, name: _content_of("") if _is_content(given) else ""})
        text = _cut(texts[name], room)
        shorter[name] = _content_of(text) if _is_content(given) else text
        original_bytes += sizes[name]
        yield {**shorter, "original_bytes": original_bytes}


def _shorter_failures(document: _Fields, limit_bytes: int) -> Iterator[_Fields]:
    """Yield ever shorter failures: without details, then fewer validation errors, then a shorter message."""
    given = document["error"]
    error = dict(given) if isinstance(given, Mapping) else {}
    error["details"] = {"truncated": True, "original_bytes": _size({"": given})}
    yield {**document, "error": error}
    if error.get("validation_errors"):
        room = (limit_bytes - _size({**document, "error": {**error, "validation_errors": [], "message": ""}})) // 2
        error["validation_errors"] = _first_that_fit(error["validation_errors"], room)
        yield {**document, "error": error}
    room = limit_bytes - _size({**document, "error": {**error, "message": ""}})
    yield {**document, "error": {**error, "message": _cut(str(error.get("message")), room)}}


def _first_that_fit(texts: object, room_bytes: int) -> list[str]:
    """Return the first texts whose JSON forms, with commas, fit into `room_bytes`. The last one may be cut."""
    kept: list[str] = []
    for text in texts if isinstance(texts, list) else []:
        room_bytes -= len('"",')
        short = _cut(text, room_bytes)
        if not short:
            break
        kept.append(short)
        room_bytes -= _json_bytes(short)
    return kept


def _is_content(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(block, dict) and "text" in block for block in value)


def _content_of(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


def _text_of(value: object) -> str:
    if isinstance(value, list) and _is_content(value):
        return "".join(block["text"] for block in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str, room_bytes: int) -> str:
    """Return the longest prefix of `text` whose JSON form has at most `room_bytes`."""
    low, high = 0, min(len(text), max(room_bytes, 0))
    while low < high:
        middle = (low + high + 1) // 2
        if _json_bytes(text[:middle]) <= room_bytes:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def _json_bytes(text: str) -> int:
    return _size({"": text}) - len(b'{"":""}\n')


def _size(document: _Fields) -> int:
    return len(encode_line(document))
