"""Numbers and writes the events of one run, and sees to it that exactly one of them is terminal (SPEC 5)."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, cast

from ao_executors.core.shrinking import shrink
from ao_protocol.framing import MAX_EVENT_BYTES, NotIJson, encode_line

if TYPE_CHECKING:
    from ao_protocol.events import Body

_NO_PROGRESS: Final = frozenset({"heartbeat", "log"})


def _utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Emitter:
    """Turns bodies into lines. What is written after the terminal event is dropped, and `ended` says so.

    `write` gets one whole line at a time. The values of `secrets` are taken out of its strings (AOX-198), as
    `ao_protocol.redaction` does it; lines over `max_event_bytes` are shortened where a text can be cut. Payloads, such
    as a tool's input, may be JSON that not every receiver reads; see `ao_executors.core.interoperable`.
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
        """True in the middle of an event, as a signal handler may find it."""
        self.may_have_changed_something = False
        """True once a tool or an MCP server was started."""
        self.bound_session: str | None = None
        """The executor's own name of the session, as the last `session_bound` said it."""
        self._write = write
        self._identity = {"session_id": session_id, "run_id": run_id}
        self._now = now
        self._redact = _redaction_of(tuple(secret for secret in secrets if secret))
        self._open_tools: dict[str, str] = {}
        self._retry_at = 0.0

    def for_next_run(self, run_id: str) -> "Emitter":
        """Return the emitter of another run in the same session: `seq` begins again, all else stays."""
        following = Emitter(self._write, run_id=run_id, session_id=self._identity["session_id"], now=self._now)
        following._redact, following.max_event_bytes = self._redact, self.max_event_bytes
        following.bound_session = self.bound_session
        return following

    @property
    def side_effects(self) -> str:
        """`none` while neither a tool nor an MCP server has been started, then `possible` (SPEC 6)."""
        return "possible" if self.may_have_changed_something else "none"

    @property
    def phase(self) -> 'Literal["model", "tool", "retry_wait"]':
        """What the run is waiting for, as a heartbeat says it."""
        if time.monotonic() < self._retry_at:
            return "retry_wait"
        return "tool" if self._open_tools else "model"

    def emit(self, body: "Body") -> None:
        """Write an event.

        Raises:
            EventTooLarge: the line would be too long, and nothing in it can be cut.
            NobodyReads: the other end is closed.
        """
        from ao_protocol.events import body_fields

        self.emit_fields(body.event_type, body_fields(body))

    def emit_fields(self, event_type: str, fields: Mapping[str, object]) -> None:
        """Write an event that is given as its wire fields; otherwise like `emit`."""
        if self.ended:
            return
        self.is_busy = True
        try:
            self._write_event(event_type, fields)
        finally:
            self.is_busy = False

    def end(self, event_type: str, fields: Mapping[str, object]) -> None:
        """Write the terminal event, after closing the tool calls that are still open."""
        status = "cancelled" if fields.get("status") == "cancelled" else "failed"
        for call, name in list(self._open_tools.items()):
            finished = {"tool_call_id": call, "tool_name": name, "status": status, "error": "the run ended first"}
            self.emit_fields("tool_finished", finished)
        self.emit_fields(event_type, fields)
        self.ended = True

    def _write_event(self, event_type: str, fields: Mapping[str, object]) -> None:
        envelope = {"event_type": event_type, **self._identity, "seq": self.seq + 1, "timestamp": self._now()}
        try:
            line = encode_line({**envelope, **fields})
        except NotIJson:
            from ao_executors.core.interoperable import interoperable_fields

            fields = interoperable_fields(event_type, fields)
            line = encode_line({**envelope, **fields})
        if len(line) > self.max_event_bytes:
            line = shrink(envelope, fields, self.max_event_bytes)
        line = self._redact(line)
        self._track(event_type, fields)
        self.seq += 1
        self._write(line)

    def _track(self, event_type: str, fields: Mapping[str, object]) -> None:
        if event_type not in _NO_PROGRESS:
            self._retry_at = 0.0
            self.last_progress_seq = self.seq + 1
        if event_type == "retry_scheduled":
            self._retry_at = time.monotonic() + cast("float", fields["delay_seconds"])
        if event_type == "session_bound":
            self.bound_session = str(fields["executor_session_id"])
        if event_type == "tool_started":
            self.may_have_changed_something = True
            self._open_tools[str(fields["tool_call_id"])] = str(fields["tool_name"])
        elif event_type == "tool_finished":
            self._open_tools.pop(str(fields["tool_call_id"]), None)


@lru_cache(maxsize=1)
def _redaction_of(secrets: tuple[str, ...]) -> Callable[[bytes], bytes]:
    """Return what takes secrets out of the strings of a line; where there are none, nothing is imported for it."""
    if not secrets:
        return lambda line: line
    from ao_protocol.redaction import Redactor

    redactor = Redactor({str(number): secret for number, secret in enumerate(secrets)})

    def redacted(line: bytes) -> bytes:
        without = redactor.line(line)
        # Two names in a payload that were different secrets are one now: each stands once.
        return line if without is line else encode_line(json.loads(without))

    return redacted
