"""The record of actions: who has changed what through a server."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ao_runner.store.columns import Stored
from ao_runner.store.engine import Part


@dataclass(frozen=True, slots=True)
class Action:
    """A request that has changed something."""

    at: str
    role: str
    """The role of the token, and after a space the name of the sender; empty if the server demands no token."""
    what: str
    """The method and the path."""
    target: str
    """What the path does not tell, such as the ids of new runs."""
    number: int = 0
    """Increases from each stored action to the next."""


_ACTION: Final = Stored("action", Action)


class ActionTable(Part):
    """The actions: one row for each request that has changed something."""

    def add(self, actions: Sequence[Action]) -> None:
        """Store actions, as a step of a transaction."""
        for one in actions:
            self._db.insert("actions", {"at": one.at, "role": one.role, "what": one.what, "target": one.target})

    def newest(self, before: int | None, limit: int) -> list[Action]:
        """Return the newest actions, or those before a number, newest first."""
        values = (2**62 if before is None else before, limit)
        source = "actions WHERE number < ? ORDER BY number DESC LIMIT ?"
        return self._db.records(_ACTION, source, values, is_strict=True)

    def forget(self, before: str) -> int:
        """Delete the actions from before a time, and return their number."""
        return self._db.write("DELETE FROM actions WHERE at < ?", (before,))
