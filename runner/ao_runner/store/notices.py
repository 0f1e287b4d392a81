"""What people are told of beside the ends of runs: requests to a person, failures, pauses and lost hosts."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue

from ao_protocol.wire import JsonObject
from ao_runner.store.columns import OBJECT, Stored
from ao_runner.store.engine import Part

EventName = Literal["run.ended", "input.requested", "run.failed", "profile.paused", "host.lost"]


@dataclass(frozen=True, slots=True)
class Notice:
    """An event of which people are told."""

    notice_id: str
    at: str
    event: EventName
    agent_name: str
    """The agent of its run; empty if it is about no run."""
    run_id: str
    facts: JsonObject = field(metadata=OBJECT)

    @classmethod
    def new(cls, at: str, event: EventName, agent_name: str = "", run_id: str = "", **facts: JsonValue) -> "Notice":
        """Return a notice with a new id."""
        return cls(f"evt_{secrets.token_hex(8)}", at, event, agent_name, run_id, facts)


_NOTICE: Final = Stored("notice", Notice)


class NoticeTable(Part):
    """The notices. They are kept for some time, so that a message can be sent again."""

    def add(self, notices: Sequence[Notice]) -> None:
        """Store notices."""
        self._db.insert("notices", *map(_NOTICE.values, notices))

    def find(self, notice_id: str) -> Notice | None:
        """Return the notice with an id."""
        return self._db.record(_NOTICE, "notices WHERE notice_id = ?", (notice_id,))

    def since(self, at: str) -> list[Notice]:
        """Return the notices since a time of which no command was told, oldest first."""
        return self._db.records(_NOTICE, "notices WHERE at >= ? AND notified IS NULL ORDER BY at, notice_id", (at,))

    def claim(self, notice_id: str) -> bool:
        """Mark that a command is told of a notice, and return whether no other one is."""
        unmarked = "notice_id = ? AND notified IS NULL"
        return self._db.write(f"UPDATE notices SET notified = 1 WHERE {unmarked}", (notice_id,)) > 0  # noqa: S608

    def forget(self, before: str) -> None:
        """Delete the notices from before a time of which everybody was told."""
        self._db.write(
            "DELETE FROM notices WHERE at < ?"
            " AND NOT EXISTS (SELECT 1 FROM deliveries WHERE deliveries.run_id = notices.notice_id)",
            (before,),
        )
