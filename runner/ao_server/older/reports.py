"""What an older runner and its executor report of a run, as events of the protocol. No transport and no store.

The older vocabulary has no numbers, no tool calls that belong together, and ends a run with a call of its own. Its
`result` is therefore kept as a vendor event until that call comes, so that it survives a restart of the server.
"""

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

from pydantic import BaseModel, Field, JsonValue

from ao_protocol.errors import ErrorType
from ao_protocol.events import (
    Body,
    Event,
    Failure,
    Message,
    Result,
    RunStarted,
    SessionBound,
    Terminal,
    ToolFinished,
    ToolStarted,
    VendorEvent,
)
from ao_protocol.message_content import ContentBlock, TextBlock
from ao_protocol.older_events import older_event
from ao_protocol.raw_events import events_of_types
from ao_protocol.version import CURRENT
from ao_protocol.wire import ExecutorIdentity, JsonObject
from ao_runner.run_events import RunIdentity, RunKey, as_event_of
from ao_runner.runs.lost_runs import RunSummary, ending_behind
from ao_runner.runs.outcome import failed
from ao_runner.store.records import timestamp

RESULT: Final = "_ao/older-result"
OLDER: Final = "older"
"""The version of an executor that speaks the older vocabulary, and says nothing of itself."""
MAX_NAME_CHARACTERS: Final = 256
MAX_TEXT_CHARACTERS: Final = 4 * 1024 * 1024


class PostedEvent(BaseModel):
    """An event as an executor of the older contract posts it."""

    event_type: str = Field(max_length=MAX_NAME_CHARACTERS)
    session_id: str
    timestamp: str
    tool_name: str | None = None
    tool_input: dict[str, JsonValue] | None = None
    tool_output: JsonValue = None
    error: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    role: str | None = None
    content: list[dict[str, JsonValue]] | None = None
    result_text: str | None = None
    result_data: dict[str, JsonValue] | None = None
    attempt: int | None = Field(None, description="The attempt that the run was handed out as; it is checked if given.")


@dataclass(eq=False)
class OlderRun:
    """One attempt at a run of an older runner: what was stored of it, so that the next event fits behind it.

    `lock` is held by whoever stores events of the run, since the runner and its executor report side by side.
    """

    key: RunKey
    session_id: str
    executor_name: str
    last_seq: int = 0
    summary: RunSummary = field(default_factory=RunSummary)
    result: JsonObject | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def lines_of(self, bodies: Sequence[Body], at: str | None = None) -> list[bytes]:
        """Return bodies as the next events of the run."""
        identity = RunIdentity(self.key.run_id, self.session_id, self._executor)
        relayed = [
            as_event_of(identity, self.last_seq + number, body, None, lambda: at or timestamp())
            for number, body in enumerate(bodies, 1)
        ]
        return [one.line for one in relayed]

    def note(self, lines: Iterable[bytes]) -> None:
        """Take note of stored events."""
        stored = list(lines)
        self.summary = self.summary.after(stored)
        self.last_seq += len(stored)
        for event in events_of_types(stored, {RESULT}):
            self.result = event

    def beginning(self) -> RunStarted:
        """Return the first event of the run."""
        return RunStarted(schema_version=str(CURRENT), executor=self._executor)

    def bodies_of(self, posted: PostedEvent) -> list[Body]:
        """Return what a posted event means; empty for one without a meaning here, such as `run_completed`."""
        match posted.event_type:
            case "message":
                role: Literal["user", "assistant", "system"] = "assistant"
                if posted.role in {"user", "system"}:
                    role = "user" if posted.role == "user" else "system"
                content: list[ContentBlock] = [TextBlock(text=_text(block)) for block in posted.content or []]
                return [Message(message_id=f"msg_{self.last_seq + 1}", role=role, content=content)]
            case "pre_tool":
                return [self._tool_started(posted)]
            case "post_tool":
                return self._tool_finished(posted)
            case "result":
                fields: JsonObject = {"result_text": posted.result_text, "result_data": posted.result_data}
                return [VendorEvent(event_type=RESULT, fields=fields)]
            case _:
                return []

    def ending(self, terminal: Terminal) -> list[bytes]:
        """Return the events that end the run: the ends of its open tool calls, and the terminal event."""
        summary = RunSummary(self.session_id, self.executor_name, OLDER, self.summary.open_tools)
        return [one.line for one in ending_behind(self.key.run_id, self.last_seq, summary, terminal, timestamp)]

    def terminal(self, *, needs_result: bool) -> Terminal:
        """Return the end of a run that its runner calls completed, with the last result that was posted.

        Some older executors post none. Then the result is empty, and a failure if an output contract asks for one.
        """
        text, data = (self.result or {}).get("result_text"), (self.result or {}).get("result_data")
        if text is None and data is None:
            if not needs_result:
                return Result(result_text="", result_data=None, stop_reason="end_turn")
            message = "the runner says that the run has completed, and its executor has posted no result"
            return failed(ErrorType.MISSING_TERMINAL, message, origin="runner")
        if isinstance(text, str) and data is None:
            return Result(result_text=text, result_data=None, stop_reason="end_turn")
        return Result(result_text=None, result_data=data, stop_reason="end_turn")

    @property
    def _executor(self) -> ExecutorIdentity:
        return ExecutorIdentity(name=self.executor_name, version=OLDER)

    def _tool_started(self, posted: PostedEvent) -> ToolStarted:
        return ToolStarted(
            tool_call_id=f"call_{self.last_seq + 1}",
            tool_name=_name(posted.tool_name),
            tool_input=posted.tool_input,
        )

    def _tool_finished(self, posted: PostedEvent) -> list[Body]:
        """End the oldest open call of the tool. An executor that posts only the end of a call has started it then."""
        name = _name(posted.tool_name)
        call = next((call for call, tool in self.summary.open_tools.items() if tool == name), None)
        begun = [] if call is not None else [self._tool_started(posted)]
        finished = ToolFinished(
            tool_call_id=call or begun[0].tool_call_id,
            tool_name=name,
            status="failed" if posted.error else "completed",
            tool_input=posted.tool_input,
            tool_output=posted.tool_output,
            error=posted.error,
        )
        return [*begun, finished]


def bound(executor_session_id: str, project_dir: str | None = None) -> SessionBound:
    """Return the event that names the executor's own session."""
    return SessionBound(executor_session_id=executor_session_id, project_dir=project_dir)


def failure_of(text: str) -> Failure:
    """Return the failure that a runner reports as one text, which may begin with an error type of the protocol."""
    kind, _, message = text.partition(": ")
    known = next((one for one in ErrorType if one == kind and one is not ErrorType.CANCELLED), None)
    if known is None:
        return failed(ErrorType.INTERNAL_ERROR, text or "the runner reports a failure without a reason")
    return failed(known, message or text)


def stopped_by(signal: str) -> Failure:
    """Return the end of a run that was stopped."""
    return failed(ErrorType.CANCELLED, f"stopped on request, by {signal[:MAX_NAME_CHARACTERS]}")


def time_of(posted: PostedEvent) -> str:
    """Return the time of a posted event in the form of the protocol; now if it has none."""
    try:
        moment = datetime.fromisoformat(posted.timestamp)
        return timestamp((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC))
    except (ValueError, OverflowError):
        return timestamp()


def older_row(event: Event, place: str, question: JsonObject | None, *, is_posted: bool) -> JsonObject | None:
    """Return a stored event as the older contract lists it; None if it has no counterpart there.

    Args:
        event: The event.
        place: Its id.
        question: The user's message, which is listed in place of `run_started`.
        is_posted: Whether an older executor has posted the events of the run, the user's message among them.
    """
    match event.body:
        case VendorEvent(event_type=kind, fields=fields) if kind == RESULT:
            found: JsonObject | None = {"event_type": "result", **fields}
        case RunStarted():
            found = None if is_posted else question
        case Result() if is_posted:
            found = None
        case body:
            found = older_event(body)
    if found is None:
        return None
    return {**dict.fromkeys(_ROW), "id": place, "session_id": event.envelope.session_id,
            "timestamp": event.envelope.timestamp, **found}  # fmt: skip


_ROW: Final = (
    "id", "session_id", "event_type", "timestamp", "tool_name", "tool_input", "tool_output", "error", "exit_code",
    "reason", "role", "content", "result_text", "result_data",
)  # fmt: skip


def _name(text: str | None) -> str:
    return (text or "unknown")[:MAX_NAME_CHARACTERS]


def _text(block: JsonObject) -> str:
    text = block.get("text")
    return (text if isinstance(text, str) else json.dumps(block))[:MAX_TEXT_CHARACTERS]
