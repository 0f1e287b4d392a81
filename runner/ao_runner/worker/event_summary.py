"""What has to be known of a run's events to write an end behind them, when they themselves may be gone."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Self

_RUN_STARTED: Final = b'"run_started"'
_TOOL_STARTED: Final = b'"tool_started"'
_TOOL_FINISHED: Final = b'"tool_finished"'


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Whose events they are, and which tool calls are open behind them."""

    session_id: str = ""
    executor_name: str = "unknown"
    executor_version: str = "unknown"
    open_tools: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_note(cls, note: str) -> Self:
        """Return what was noted; an empty note is the beginning of a run, and one that is damaged says as little."""
        try:
            noted = json.loads(note) if note else {}
        except (ValueError, RecursionError):
            noted = {}
        match noted:
            case {
                "session_id": str(session_id),
                "executor_name": str(name),
                "executor_version": str(version),
                "open_tools": dict(tools),
            }:
                return cls(session_id, name, version, {str(call): str(tool) for call, tool in tools.items()})
            case _:
                return cls()

    def to_note(self) -> str:
        """Return it as JSON."""
        return json.dumps(
            {
                "session_id": self.session_id,
                "executor_name": self.executor_name,
                "executor_version": self.executor_version,
                "open_tools": self.open_tools,
            }
        )

    def after(self, lines: Sequence[bytes]) -> "RunSummary":
        """Return the synopsis behind some more events."""
        synopsis = replace(self, open_tools=dict(self.open_tools))
        block = b"\n".join(lines)
        telling = [mark for mark in self._marks() if mark in block]
        if _TOOL_STARTED in telling and _TOOL_FINISHED not in telling:
            telling.append(_TOOL_FINISHED)
        for line in lines if telling else ():
            if any(mark in line for mark in telling):
                with suppress(ValueError, RecursionError):  # delivery tells of a line that is no event
                    synopsis = synopsis._after_one(json.loads(line))
        return synopsis

    def _marks(self) -> Iterator[bytes]:
        """Yield what has to be looked for; each look at a block takes its time, and most would find nothing."""
        yield _TOOL_STARTED
        if self.open_tools:
            yield _TOOL_FINISHED
        if self.executor_name == self.executor_version == "unknown":
            yield _RUN_STARTED

    def _after_one(self, document: dict[str, object]) -> "RunSummary":
        """Return the synopsis behind one event. The tools change in place: to copy them for each takes too long."""
        match document:
            case {"event_type": "run_started", "session_id": str(session_id), "executor": dict(executor)}:
                name, version = str(executor.get("name")), str(executor.get("version"))
                return replace(self, session_id=session_id, executor_name=name, executor_version=version)
            case {"event_type": "tool_started", "tool_call_id": str(call), "tool_name": str(name)}:
                self.open_tools[call] = name
            case {"event_type": "tool_finished", "tool_call_id": str(call)}:
                self.open_tools.pop(call, None)
            case _:
                pass
        return self
