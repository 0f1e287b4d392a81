"""Events as lines on stdout: the envelope, the count, what is cut and what is blacked out (SPEC 5)."""

import json
import os
import select
import time
from collections.abc import Iterable
from typing import Any

from ijson import within_levels, without_surrogates
from shrinking import shrunk

DEFAULT_MAX_EVENT_BYTES = 1024 * 1024
MIN_SECRET_CHARACTERS = 8
BLACKED_OUT = "[redacted]"
NO_PROGRESS = {"heartbeat", "log"}


class Emitter:
    """Writes the events of one run after another to a descriptor; `begin` starts the next run."""

    def __init__(self, descriptor: int, secrets: Iterable[str]) -> None:
        self._descriptor = descriptor
        self._secrets = [secret for secret in secrets if len(secret) >= MIN_SECRET_CHARACTERS]
        self.begin(None, None)

    def begin(self, run_id: str | None, session_id: str | None) -> None:
        """Begin another run."""
        self._run_id, self._session_id = run_id, session_id
        self._seq = 0
        self.last_progress_seq = 0
        self.last_event_at = time.monotonic()
        self.max_event_bytes = DEFAULT_MAX_EVENT_BYTES

    def emit(self, event_type: str, **fields: Any) -> None:
        """Write one event, cut where it would be too long."""
        line = self._line_of(event_type, self._seq + 1, fields)
        if len(line) > self.max_event_bytes:
            line = shrunk(
                event_type, fields, lambda less: self._line_of(event_type, self._seq + 1, less), self.max_event_bytes
            )
        self._seq += 1
        self._write(line)
        if event_type not in NO_PROGRESS:
            self.last_progress_seq = self._seq
        self.last_event_at = time.monotonic()

    def fits(self, event_type: str, **fields: Any) -> bool:
        """Say whether the event would go out whole."""
        return len(self._line_of(event_type, self._seq + 1, fields)) <= self.max_event_bytes

    def blacked_out(self, value: Any) -> Any:
        """Return a value without any secret in it."""
        match value:
            case str():
                for secret in self._secrets:
                    value = value.replace(secret, BLACKED_OUT)
                return value
            case list():
                return [self.blacked_out(one) for one in value]
            case dict():
                return {self.blacked_out(key): self.blacked_out(one) for key, one in value.items()}
        return value

    def _line_of(self, event_type: str, seq: int, fields: dict[str, Any]) -> bytes:
        envelope = {
            "event_type": event_type,
            "session_id": self._session_id,
            "run_id": self._run_id,
            "seq": seq,
            "timestamp": _now(),
        }
        event = within_levels(envelope | self.blacked_out(fields))
        return json.dumps(without_surrogates(event), separators=(",", ":")).encode() + b"\n"

    def _write(self, line: bytes) -> None:
        view = memoryview(line)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:
                select.select([], [self._descriptor], [])


def _now() -> str:
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{nanoseconds // 1000:06d}Z"
