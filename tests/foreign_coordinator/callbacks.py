"""How the server tells a parent session that its children have ended: by a run that resumes it.

A parent that has not ended its turn, or has a resume on its way, hears of several at once when its turn has completed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from ao_protocol.callbacks import NO_RESULT, ChildEnd, callback_prompt, text_of_result
from tests.foreign_coordinator.bodies import Document


@dataclass
class Callbacks:
    """What parents have not heard yet."""

    resume: Callable[[str, str], object]
    """Adds a run for a session, with a prompt."""
    _waiting: dict[str, list[ChildEnd]] = field(default_factory=dict)
    _on_their_way: set[str] = field(default_factory=set)

    def child_ended(self, run: Document, parent: Document | None, status: str, said: str) -> None:
        """Tell the parent, now or later."""
        if run["execution_mode"] != "async_callback" or parent is None:
            return
        parent_id = parent["session_id"]
        self._waiting.setdefault(parent_id, []).append(ChildEnd(run["session_id"], said, status == "failed"))
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
        self.resume(session_id, callback_prompt(children))


def worded(result: Document | None) -> str:
    """Return what a callback says of a result."""
    return NO_RESULT if result is None else text_of_result(result["result_text"], result["result_data"])
