"""What has to be known of a run's events to write an end behind them, when they themselves may be gone."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

_TELLING: Final = (b'"run_started"', b'"tool_started"', b'"tool_finished"')


@dataclass(frozen=True, slots=True)
class Synopsis:
    """Whose events they are, and which tool calls are open behind them."""

    session_id: str = ""
    executor_name: str = "unknown"
    executor_version: str = "unknown"
    open_tools: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_note(cls, note: str) -> Self:
        """Return what was noted; an empty note is the beginning of a run."""
        return cls(**json.loads(note)) if note else cls()

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

    def after(self, lines: Sequence[bytes]) -> "Synopsis":
        """Return the synopsis behind some more events."""
        synopsis = self
        block = b"\n".join(lines)
        telling = [mark for mark in _TELLING if mark in block]
        for line in lines if telling else ():
            if any(mark in line for mark in telling):
                synopsis = synopsis._after_one(json.loads(line))
        return synopsis

    def _after_one(self, document: dict[str, object]) -> "Synopsis":
        match document:
            case {"event_type": "run_started", "session_id": str(session_id), "executor": dict(executor)}:
                name, version = str(executor.get("name")), str(executor.get("version"))
                return replace(self, session_id=session_id, executor_name=name, executor_version=version)
            case {"event_type": "tool_started", "tool_call_id": str(call), "tool_name": str(name)}:
                return replace(self, open_tools={**self.open_tools, call: name})
            case {"event_type": "tool_finished", "tool_call_id": str(call)}:
                left = {other: name for other, name in self.open_tools.items() if other != call}
                return replace(self, open_tools=left)
            case _:
                return self
