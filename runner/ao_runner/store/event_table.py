"""The events of runs in a store."""

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ao_runner.store.columns import Stored, reading
from ao_runner.store.engine import Part
from ao_runner.store.records import StoredEvent
from ao_runner.store.run_table import RunTable
from ao_runner.store.store_errors import RowDamaged


@dataclass(frozen=True, slots=True)
class _Tail:
    run_id: str
    lines: str


_TAIL: Final = Stored("events of run", _Tail)


@dataclass(eq=False)
class EventTable(Part):
    """The events: rows of consecutive JSON lines, numbered within their run and within the store."""

    _runs: RunTable
    gaps: dict[str, int] = field(default_factory=dict)
    """The last event before the newest gap of a run: `add_of_attempt` has stored events behind missing ones."""

    def last_seq(self, run_id: str) -> int:
        """Return the `seq` of the last stored event of a run; 0 if there is none."""
        rows = self._db.fetch(f"SELECT {self._db.last_seq_sql} FROM runs WHERE run_id = ?", (run_id,))  # noqa: S608  # own words
        return int(rows[0][0] or 0) if rows else 0

    def last_line(self, run_id: str) -> str | None:
        """Return the last event of a run.

        Raises:
            RowDamaged: The event cannot be read.
        """
        rows = self._db.fetch("SELECT line FROM events WHERE run_id = ? ORDER BY seq DESC LIMIT 1", (run_id,))
        if not rows:
            return None
        with reading("events of run", rows[0], run_id):
            return str(rows[0][0]).rpartition("\n")[2]

    def last_lines(self, run_ids: Collection[str]) -> dict[str, str]:
        """Return the last event of each run, heartbeats excepted, in one query. Damaged ones go to `damage`.

        Of an event that is longer than `TAIL_CHARACTERS`, only the end is returned.
        """
        source, values = f"runs WHERE run_id {self._db.among_sql}", (self._db.listed(run_ids),)
        found = self._db.records(_TAIL, source, values, {"lines": f"coalesce({self._db.tail_sql}, '')"})
        return {tail.run_id: tail.lines.rpartition("\n")[2] for tail in found}

    def are_pruned(self, run_id: str) -> bool:
        """Return whether the events of a run were stored once, and are gone."""
        return self.last_seq(run_id) > 0 and self.last_line(run_id) is None

    def lines_with(self, run_id: str, part: str) -> list[str]:
        """Return the events of a run that contain a text, in order."""
        rows = self._db.fetch(
            "SELECT line FROM events WHERE run_id = ? AND line LIKE ? ORDER BY seq", (run_id, f"%{part}%")
        )
        return [line for (lines,) in rows for line in lines.split("\n") if part in line]

    def position_of(self, run_id: str, seq: int) -> int:
        """Return the position of an event of a run; 0 if it is not stored."""
        rows = self._db.fetch(
            "SELECT position FROM events WHERE run_id = ? AND seq <= ? ORDER BY seq DESC LIMIT 1", (run_id, seq)
        )
        return int(rows[0][0]) if rows else 0

    @abstractmethod
    def add(self, run_id: str, first_seq: int, lines: Sequence[bytes]) -> None:
        """Store consecutive events in one row. All are stored or none.

        Raises:
            RowConflict: The first event exists.
        """

    def add_of_attempt(
        self, run_id: str, attempt: int, first_seq: int, lines: Sequence[bytes], owner: str | None = None
    ) -> int:
        """Store the events that are not stored yet, and return the `seq` of the last stored one.

        With an owner, the attempt must be its own: a server that went back in time gives a number out twice.

        Events that are all stored already may be repeated, even after the end.

        Raises:
            NotHeld: The events are no longer accepted.
        """
        # Locked first: another connection may add the same events.
        statement = f"SELECT {self._db.last_seq_sql} FROM runs WHERE run_id = ?{self._db.lock_sql}"  # noqa: S608  # own
        rows = self._db.fetch(statement, (run_id,))
        last = int(rows[0][0] or 0) if rows else 0
        new = lines[max(0, last + 1 - first_seq) :]
        self._runs.check_held(run_id, attempt, owner, or_ended=not new)
        if not new:
            return last
        if last + 1 < first_seq:
            self.gaps[run_id] = last
        # Events that a damaged outbox has lost are missing here as well, as a visible gap.
        self.add(run_id, max(first_seq, last + 1), new)
        return first_seq + len(lines) - 1

    @abstractmethod
    def of_session(self, session_id: str, after: int = 0, run_id: str | None = None) -> Iterator[StoredEvent]:
        """Yield the events of a session, or of one of its runs, after a position, in order.

        Only a few rows are in memory at a time, and nothing is locked in between. Damaged rows go to `damage`.
        """

    def _split(self, position: int, run_id: str, first_seq: int, lines: str) -> Iterator[StoredEvent]:
        """Yield the events in a row. A row that is no text goes to `damage`."""
        try:
            with reading("events", (lines,), position):
                split = lines.split("\n")
        except RowDamaged as damaged:
            self._db.damage.add(damaged)
            return
        for seq, line in enumerate(split, first_seq):
            yield StoredEvent(position, run_id, seq, line)
