"""Lines that are plainly the next events of a run: nearly all of them are, and they are passed on without being built.

It judges nothing by itself. `ao_protocol.events.plain` and `alike` know what is valid for certain; what they leave is
the conversation's to read.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ao_protocol.events.event_template import Likeness, likeness_of
from ao_protocol.events.plain import plain_event
from ao_protocol.framing import LineTooLong
from ao_protocol.lifecycle import RunLifecycle
from ao_runner.redaction.events import Concealment
from ao_runner.run_events import Relayed
from ao_runner.runs.open_tools import has_room_for

MOST_AT_ONCE: Final = 100
LEARNED_EVERY: Final = 16
"""To learn from an event takes as long as to judge three others, so it is done for one of so many at most."""


class PlainLines:
    """Takes lines of a run that goes on as it should: it is running, and `lifecycle` counts as the runner does."""

    def __init__(self, lifecycle: RunLifecycle, concealment: Concealment) -> None:
        self._lifecycle = lifecycle
        self._concealment = concealment
        self._like: Likeness | None = None
        self._latest = "", ""
        """The type and the message of the last event: one is compared only behind another of the same message."""
        self._learned_at = -LEARNED_EVERY
        self.has_heartbeats = False

    def take(self, lines: Sequence[bytes | LineTooLong], at: int) -> tuple[int, Sequence[Relayed]]:
        """Return how many lines from `at` on were taken, and the events whose turn it is now; none where none was."""
        seq, like = self._lifecycle.last_seq + 1, self._like
        if like is None or like.of != self._latest or not (texts := like.texts_of(lines, at, MOST_AT_ONCE, seq)):
            return self._take_one(lines[at])
        taken: list[bytes] = lines[at : at + len(texts)]  # type: ignore[assignment]  # what has a text is a line
        self._lifecycle.last_seq += len(taken)
        event_type, message_id = like.of
        items = [Relayed.unread(line, number, event_type) for number, line in enumerate(taken, seq)]
        if event_type == "message_delta":
            return len(items), self._concealment.deltas_in_turn(items, message_id, texts)
        return len(items), [shown for item in items for shown in self._concealment.in_turn(item)]

    def _take_one(self, line: bytes | LineTooLong) -> tuple[int, Sequence[Relayed]]:
        # A line that begins with a blank is no event as the runner writes them.
        if isinstance(line, LineTooLong) or line[:1] != b"{":
            return 0, ()
        document = plain_event(line)
        if document is None or not self._has_room_for(document) or not self._lifecycle.follow(document):
            return 0, ()
        event_type, seq = document["event_type"], document["seq"]
        of = event_type, document.get("message_id", "")
        if of == self._latest and seq - self._learned_at >= LEARNED_EVERY:
            self._learned_at = seq
            self._like = likeness_of(line, document)
        self._latest = of
        item = Relayed.unread(line, seq, event_type)
        if event_type == "message_delta":
            text = "".join([block["text"] for block in document["content"]])
            return 1, self._concealment.deltas_in_turn([item], document["message_id"], [text])
        self.has_heartbeats = self.has_heartbeats or event_type == "heartbeat"
        return 1, self._concealment.in_turn(item)

    def _has_room_for(self, document: Mapping[str, Any]) -> bool:
        if document["event_type"] != "tool_started":
            return True
        return has_room_for(document["tool_call_id"], document["tool_name"], self._lifecycle.open_tools)
