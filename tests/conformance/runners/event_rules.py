"""What an event is and what may follow what, in the words of the reference runner: SPEC 3, 5."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

Document = dict[str, Any]
FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "run_started": {"schema_version": str, "executor": dict},
    "session_bound": {"executor_session_id": str},
    "message": {"message_id": str, "role": str, "content": list},
    "message_delta": {"message_id": str, "role": str, "content": list},
    "tool_started": {"tool_call_id": str, "tool_name": str},
    "tool_finished": {"tool_call_id": str, "tool_name": str, "status": str},
    "output_validation": {"attempt": int, "valid": bool, "errors": list, "retries_left": int},
    "retry_scheduled": {"error": dict, "attempt": int, "delay_seconds": (int, float)},
    "usage": {},
    "heartbeat": {"phase": str, "last_progress_seq": int},
    "log": {"level": str, "message": str},
    "input_requested": {"request_id": str, "kind": str, "title": str},
    "input_resolved": {"request_id": str, "outcome": str, "by": str},
    "result": {"result_text": (str, type(None)), "result_data": object, "stop_reason": str},
    "failure": {"status": str, "error": dict},
}
NAMES = ("run_id", "session_id")
ENVELOPE: dict[str, type | tuple[type, ...]] = {"run_id": str, "session_id": str, "seq": int, "timestamp": str}
LEVELS = {"debug", "info", "warning", "error"}
MAX_DEPTH = 64


class NoEvent(Exception):
    """A line is none."""


class Closed(Exception):
    """The run does not allow the event."""


def now() -> str:
    """Return the time as events have it."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def read_event(line: bytes, complete: Callable[[Document], Document] = lambda event: event) -> Document:
    """Return the event of a line, with what `complete` adds to it, or raise `NoEvent`."""
    try:
        found = json.loads(
            line.decode(), object_pairs_hook=_once_each, parse_constant=_refuse, parse_int=_small, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise NoEvent(f"a line is no JSON: {str(error)[:80]}") from None
    if not isinstance(found, dict) or not isinstance(found.get("event_type"), str) or _depth(found) > MAX_DEPTH:
        raise NoEvent("a line is no event")
    kind, found = found["event_type"], complete(found)
    if kind not in FIELDS and not re.fullmatch(r"_[A-Za-z0-9-]+/.+", kind):
        raise NoEvent(f"no event is called {kind}")
    names = dict.fromkeys(NAMES, (str, type(None))) if kind in {"run_started", "failure"} else {}
    for name, wanted in {**ENVELOPE, **names, **FIELDS.get(kind, {})}.items():
        if name not in found or not isinstance(found[name], wanted):
            raise NoEvent(f"{kind} without {name}")
    if kind == "log" and found["level"] not in LEVELS:
        raise NoEvent("log with an unknown level")
    return found


class EventRules:
    """Follows a run and counts for it."""

    def __init__(self, run_id: str, session_id: str) -> None:
        self.run_id = run_id
        self.session_id = session_id
        self.seq = 0
        self.their_seq = 0
        self.open_tools: dict[str, str] = {}
        self.parents: dict[str, str | None] = {}
        """The call that each open one is a part of."""
        self.requests: dict[str, bool] = {}
        """Whether each request is open."""
        self.waiting: list[Document] = []
        self.has_started = self.has_ended = self.has_result = self.is_unnamed = False

    def accept(self, event: Document) -> Iterator[Document]:
        """Yield what has to be said before the event, or raise `Closed` where it has to be left out."""
        kind, call = event["event_type"], event.get("tool_call_id")
        self._check_names(event)
        if kind == "run_started" and self.has_started:
            raise Closed("a second run_started")
        if (kind == "tool_finished" and call not in self.open_tools) or (
            kind == "tool_started" and call in self.open_tools
        ):
            raise Closed(f"tool call {call} is not paired")
        self._check_parent(kind, event)
        self._check_request(kind, event)
        if kind != "run_started" and not self.has_started:
            self.waiting.append(self._log(f"{kind} came before run_started"))
        elif event["seq"] != self.their_seq + 1:
            self.waiting.append(self._log(f"seq {event['seq']} after {self.their_seq}"))
        self.their_seq = event["seq"]
        if kind != "run_started":
            yield from self._begin()
        if kind == "tool_started":
            self.open_tools[str(call)] = event["tool_name"]
            self.parents[str(call)] = event.get("parent_tool_call_id")
        elif kind == "tool_finished":
            del self.open_tools[str(call)]
            del self.parents[str(call)]
        elif kind in {"input_requested", "input_resolved"}:
            self.requests[event["request_id"]] = kind == "input_requested"
        elif kind in {"result", "failure"}:
            yield from self._close_requests()
            yield from self._close_tools()

    def renumbered(self, event: Document) -> bool:
        """Give the event the next number, and the run's names; return whether that changed it."""
        self.seq += 1
        self.has_started = True
        self.has_ended = self.has_ended or event["event_type"] in {"result", "failure"}
        self.has_result = self.has_result or event["event_type"] == "result"
        given = dict(event)
        event.update({"seq": self.seq, "run_id": self.run_id, "session_id": self.session_id})
        return event != given

    def complaint(self, text: str) -> Iterator[Document]:
        """Yield a `log` event, now or as soon as the run has begun."""
        self.waiting.append(self._log(text))
        if self.has_started:
            yield from self._begin()

    def end(self, fields: Document) -> Iterator[Document]:
        """Yield a failure, and before it what a whole run needs."""
        yield from self._begin()
        yield from self._close_requests()
        yield from self._close_tools()
        yield self._numbered({"event_type": "failure", **fields})

    def _check_names(self, event: Document) -> None:
        found, kind = (event["run_id"], event["session_id"]), event["event_type"]
        is_refusal = kind == "run_started" or (kind == "failure" and self.is_unnamed)
        if found != (self.run_id, self.session_id) and not (found == (None, None) and is_refusal):
            raise Closed("an event of another run")
        self.is_unnamed = found == (None, None)

    def _check_parent(self, kind: str, event: Document) -> None:
        parent = event.get("parent_tool_call_id")
        if parent is not None and kind != "tool_finished" and parent not in self.open_tools:
            raise Closed(f"a part of {parent}, which is not open")
        if kind == "tool_finished" and event["tool_call_id"] in self.parents.values():
            raise Closed(f"a part of {event['tool_call_id']} is open")

    def _check_request(self, kind: str, event: Document) -> None:
        is_known, is_open = event.get("request_id") in self.requests, self.requests.get(event.get("request_id", ""))
        if (kind == "input_requested" and is_known) or (kind == "input_resolved" and not is_open):
            raise Closed(f"request {event['request_id']} is not paired")

    def _begin(self) -> Iterator[Document]:
        if not self.has_started:
            executor = {"name": "unknown", "version": "unknown"}
            yield self._numbered({"event_type": "run_started", "schema_version": "3.0", "executor": executor})
        while self.waiting:
            yield self._numbered(self.waiting.pop(0))

    def _close_requests(self) -> Iterator[Document]:
        for request in [name for name, is_open in self.requests.items() if is_open]:
            resolved = {"event_type": "input_resolved", "request_id": request, "outcome": "cancelled", "by": "policy"}
            yield self._numbered(resolved)
        self.requests = {}

    def _close_tools(self) -> Iterator[Document]:
        for call, name in reversed(self.open_tools.items()):  # a part before its call
            yield self._numbered(
                {"event_type": "tool_finished", "tool_call_id": call, "tool_name": name, "status": "cancelled"}
            )
        self.open_tools = {}

    def _log(self, text: str) -> Document:
        return {"event_type": "log", "level": "warning", "message": text}

    def _numbered(self, body: Document) -> Document:
        ids = {"run_id": self.run_id, "session_id": self.session_id}
        event = {**body, **ids, "seq": 0, "timestamp": now()}
        self.renumbered(event)
        return event


def _once_each(pairs: list[tuple[str, Any]]) -> Document:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def _refuse(text: str) -> None:
    raise ValueError(text)


def _small(text: str) -> int:
    if abs(int(text)) >= 2**53:
        raise ValueError(text)
    return int(text)


def _finite(text: str) -> float:
    if float(text) in {float("inf"), float("-inf")}:
        raise ValueError(text)
    return float(text)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0
