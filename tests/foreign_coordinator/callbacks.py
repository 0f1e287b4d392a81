"""How the server tells a parent session that its children have ended: by a run that resumes it.

A parent that has not ended its turn, or has a resume on its way, hears of several at once when its turn has completed.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.foreign_coordinator.bodies import Document

_DONE = """<agent-callback session="{}" status="completed">
## Child Result

{}
</agent-callback>

Please continue with the orchestration based on this result."""
_FAILED = """<agent-callback session="{}" status="failed">
## Error

{}
</agent-callback>

Please handle this failure and continue with the orchestration."""
_SEVERAL = """<agent-callback type="aggregated" count="{}">
{}
</agent-callback>

Please continue with the orchestration based on these results."""
Child = tuple[str, str, str]
"""Its session, `completed` or `failed`, and what it said."""


@dataclass
class Callbacks:
    """What parents have not heard yet."""

    resume: Callable[[str, str], object]
    """Adds a run for a session, with a prompt."""
    _waiting: dict[str, list[Child]] = field(default_factory=dict)
    _on_their_way: set[str] = field(default_factory=set)

    def child_ended(self, run: Document, parent: Document | None, status: str, said: str) -> None:
        """Tell the parent, now or later."""
        if run["execution_mode"] != "async_callback" or parent is None:
            return
        parent_id = parent["session_id"]
        self._waiting.setdefault(parent_id, []).append((run["session_id"], status, said))
        if parent_id not in self._on_their_way and parent["status"] in {"finished", "idle"}:
            self._flush(parent_id)

    def turn_completed(self, session_id: str) -> None:
        """Tell a parent what it has not heard. No such thing happens after a turn that failed or was stopped."""
        self._on_their_way.discard(session_id)
        if session_id in self._waiting:
            self._flush(session_id)

    def _flush(self, session_id: str) -> None:
        children = self._waiting.pop(session_id)
        self._on_their_way.add(session_id)
        if len(children) == 1:
            ((child, status, said),) = children
            self.resume(session_id, (_DONE if status == "completed" else _FAILED).format(child, said))
            return
        parts = [f"### Child: {child} (status: {status})\n\n{said}" for child, status, said in children]
        self.resume(session_id, _SEVERAL.format(len(children), "\n\n---\n\n".join(parts)))


def worded(result: Document | None) -> str:
    """Return what a callback says of a result."""
    if result is not None and result["result_data"] is not None:
        return json.dumps(result["result_data"], indent=2)
    return (result and result["result_text"]) or "(No result available)"
