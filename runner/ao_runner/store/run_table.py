"""The runs of a store: begun, searched and ended, whoever performs them."""

import json
import operator
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from ao_protocol.events import UsageFigures
from ao_protocol.rejected_answers import RejectedAnswer
from ao_runner.store.brief_fields import brief_columns
from ao_runner.store.columns import Stored, json_object, reading
from ao_runner.store.engine import ConstraintBroken, Part, end_of_prefix
from ao_runner.store.records import LAST, Run, RunRecord, RunState, RunStatus, Session
from ao_runner.store.session_table import SessionTable
from ao_runner.store.store_errors import (
    BEHIND,
    NotHeld,
    OfAnotherSession,
    RepeatedBefore,
    RowConflict,
    RowDamaged,
    SessionBusy,
    SessionUnknown,
)

if TYPE_CHECKING:
    from ao_runner.store.run_filter import RunFilter

RUN: Final = Stored("run", Run)
_STATE: Final = Stored("run", RunState)
MOST_OF_A_SESSION: Final = 1_000
"""Maximum number of runs of one session in a list of states."""
UNREPEATED: Final = "NOT EXISTS (SELECT 1 FROM runs AS o WHERE o.succeeds = runs.run_id)"
"""The SQL condition that no other run repeats one."""
_PREFIXED: Final = "run_id >= ? AND run_id < ?"


@dataclass(eq=False)
class RunTable(Part):
    """The runs: one row for each, with its state and its settings."""

    _sessions: SessionTable

    def insert(self, *rows: tuple[Run, dict[str, object]]) -> None:
        """Store new runs, each with the columns that have other values than the run says, or that it does not have."""
        own = self._db.own_run_columns
        names = [dict.fromkeys(own, (run.contract or {}).get("schema_name")) for run, _ in rows]
        values = [RUN.values(run) | others for run, others in rows]
        self._db.insert("runs", *map(operator.or_, values, names))

    def begin(self, run: Run, owner: str, new_session: Session | None = None) -> None:
        """Store a new run that `owner` performs, together with the session that it begins, if any.

        Raises:
            SessionBusy: The session has an unfinished run.
            SessionUnknown: The session was deleted.
            RowConflict: The run exists.
        """
        try:
            with self._db.transaction():
                if new_session is not None:
                    self._sessions.add(new_session)
                self.insert((run, {"owner": owner, "announced": 0}))
        except ConstraintBroken as error:
            if error.kind == "reference":
                raise SessionUnknown(run.session_id) from error
            if error.kind == "one_running_run":
                raise SessionBusy(run.session_id) from error
            raise RowConflict(f"run {run.run_id}") from error

    def end(self, run_id: str, status: RunStatus, ended_at: str, error_type: str | None) -> None:
        """Store the end of a run."""
        self._db.write(
            "UPDATE runs SET status = ?, ended_at = ?, error_type = ? WHERE run_id = ?",
            (status, ended_at, error_type, run_id),
        )

    def record_usage(self, run_id: str, usage: UsageFigures | None) -> None:
        """Store what a run has used, as a step of the transaction that stores the event that tells it."""
        if usage is not None:
            self._db.write(
                "UPDATE runs SET cost_usd = ?, input_tokens = ?, output_tokens = ? WHERE run_id = ?",
                (usage.cost_usd, usage.input_tokens, usage.output_tokens, run_id),
            )

    def request_stop(self, run_id: str) -> RunStatus | None:
        """Request a stop of a run and return its status, or None if there is no such run."""
        rows = self._db.fetch(
            "UPDATE runs SET stop_wanted = stop_wanted + 1 WHERE run_id = ? RETURNING status", (run_id,)
        )
        return rows[0][0] if rows else None

    def add_record(self, run_id: str, record: RunRecord) -> None:
        """Store the record of a run."""
        self._db.write("UPDATE runs SET record = ? WHERE run_id = ?", (json.dumps(asdict(record)), run_id))

    def find_record(self, run_id: str) -> RunRecord | None:
        """Return the record of a run, or None if there is none yet.

        Raises:
            RowDamaged: The record cannot be read.
        """
        rows = self._db.fetch("SELECT record FROM runs WHERE run_id = ? AND record IS NOT NULL", (run_id,))
        if not rows:
            return None
        with reading("run", rows[0], run_id):
            values: dict[str, Any] = json_object("record", rows[0][0])
            lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
            rejected = tuple(RejectedAnswer(**answer) for answer in values.get("rejected_answers", ()))
            return RunRecord(**values | lists | {"rejected_answers": rejected})

    def find_id(self, session_id: str, wanted: str) -> str:
        """Return the run of a session for an id: that of a run, a prefix of one, that of the session itself, or `last`.

        Raises:
            SessionUnknown: There is no match, or more than one.
            OfAnotherSession: The match belongs to another session.
        """
        prefix = "" if wanted == LAST else wanted
        rows = self._db.fetch(
            "SELECT run_id FROM runs WHERE session_id = ? AND run_id >= ? AND run_id < ? ORDER BY rowid DESC",
            (session_id, prefix, end_of_prefix(prefix)),
        )
        found = [run_id for (run_id,) in rows]
        chosen = found[:1] if wanted == LAST or wanted in found else found
        chosen = [wanted] if wanted in found else chosen
        if not chosen and wanted != LAST:
            owner, _ = self._sessions.resolve(wanted)
            if owner != session_id:
                raise OfAnotherSession(wanted, owner, session_id)
            return self.find_id(session_id, LAST)
        if len(chosen) != 1:
            raise SessionUnknown(wanted, chosen)
        return str(chosen[0])

    def of_sessions(self, *session_ids: str) -> list[Run]:
        """Return the runs of sessions in order, in one query. Large parameters are brief, see `brief_fields`."""
        source = f"runs WHERE session_id {self._db.among_sql} ORDER BY rowid"
        brief = brief_columns(self._db.beginning_sql)
        return self._db.records(RUN, source, (self._db.listed(session_ids),), brief)

    def states_of(self, *session_ids: str) -> list[RunState]:
        """Return the newest runs of sessions, oldest first, in one query. Damaged rows go to `damage`.

        Large parameters are brief, see `brief_fields`.
        """
        numbered = (
            "SELECT rowid, row_number() OVER (PARTITION BY session_id ORDER BY rowid DESC) AS back"  # noqa: S608  # own
            f" FROM runs WHERE session_id {self._db.among_sql}"
        )
        newest = f"rowid IN (SELECT rowid FROM ({numbered}) AS numbered WHERE back <= {MOST_OF_A_SESSION})"  # noqa: S608
        return self.select(newest, self._db.listed(session_ids))

    def of_ids(self, run_ids: Collection[str]) -> list[RunState]:
        """Return the runs with these ids, oldest first. Damaged rows go to `damage`."""
        return self.select(f"run_id {self._db.among_sql}", self._db.listed(run_ids)) if run_ids else []

    def states(self, *statuses: RunStatus) -> list[RunState]:
        """Return the runs with one of the statuses, or all, oldest first. Damaged rows go to `damage`."""
        if not statuses:
            return self.select("1 = 1")
        return self.select(f"status IN ({', '.join('?' * len(statuses))})", *statuses)

    def are_running(self) -> bool:
        """Return whether any run is running, by whatever process."""
        return bool(self._db.fetch("SELECT 1 FROM runs WHERE status = 'running' LIMIT 1"))

    def find(self, beginning: str) -> list[RunState]:
        """Return the run with an id, or the runs whose ids have that prefix, oldest first.

        Raises:
            RowDamaged: One of them is damaged.
        """
        found = self.select("run_id = ?", beginning, is_strict=True)
        return found or self.select(_PREFIXED, beginning, end_of_prefix(beginning), is_strict=True)

    def search(self, wanted: "RunFilter") -> list[RunState]:
        """Return the newest runs that fit a filter, newest first. Damaged rows go to `damage`.

        Large parameters are brief, see `brief_fields`.
        """
        from ao_runner.store.run_filter import OF_NEWEST, SORTED, condition_of

        condition, values = condition_of(wanted, self._db)
        direction = "ASC" if wanted.is_rising else "DESC"
        order = f"rowid {direction}"
        if wanted.order is not None:
            condition += f" AND {OF_NEWEST}"
            order = f"{SORTED[wanted.order].format(seconds=self._db.seconds_sql)} {direction} NULLS LAST, rowid DESC"
        return self.select(condition, *values, order=f"{order} LIMIT {wanted.limit:d} OFFSET {wanted.skip:d}")

    def count(self, wanted: "RunFilter") -> dict[RunStatus, int]:
        """Return the number of runs that fit a filter by status, of the newest runs."""
        from ao_runner.store.run_filter import OF_NEWEST, condition_of

        condition, values = condition_of(wanted, self._db)
        rows = self._db.fetch(
            f"SELECT status, count(*) FROM runs WHERE {condition} AND {OF_NEWEST} GROUP BY status",  # noqa: S608
            values,
        )
        return {status: int(count) for status, count in rows}

    def select(self, condition: str, *values: object, order: str = "rowid", is_strict: bool = False) -> list[RunState]:
        """Return the runs that fit a condition, oldest first unless `order` says otherwise.

        Unless `is_strict`, large parameters are brief.

        Raises:
            RowDamaged: One of them is damaged, with `is_strict`. Otherwise, damaged rows go to `damage`.
        """
        of_session = "FROM sessions WHERE sessions.session_id = runs.session_id"
        expressions = {
            "last_seq": f"coalesce({self._db.last_seq_sql}, 0)",
            "host": f"(SELECT host {of_session})",
            "agent_name": f"coalesce((SELECT agent_name {of_session}), '')",
            "number": "rowid",
        } | ({} if is_strict else brief_columns(self._db.beginning_sql))
        source = f"runs WHERE {condition} ORDER BY {order}"
        return self._db.records(_STATE, source, values, expressions, is_strict=is_strict)

    def last(self, session_id: str, run_id: str | None = None) -> Run | None:
        """Return the last run of a session, or the one with an id, or None.

        Raises:
            RowDamaged: The run cannot be read.
        """
        source = "runs WHERE session_id = ? AND run_id = coalesce(?, run_id) ORDER BY rowid DESC LIMIT 1"
        return self._db.record(RUN, source, (session_id, run_id))

    def first(self, session_id: str) -> Run:
        """Return the run that began a session.

        Raises:
            RowDamaged: The run cannot be read, or is missing.
        """
        source = "runs WHERE session_id = ? ORDER BY rowid LIMIT 1"
        if (found := self._db.record(RUN, source, (session_id,))) is None:
            raise RowDamaged("session", session_id, "its first run is missing")
        return found

    def exactly(self, run_id: str) -> Run:
        """Return the run with exactly this id.

        Raises:
            SessionUnknown: There is no such run.
            RowDamaged: The run cannot be read.
        """
        if (found := self._db.record(RUN, "runs WHERE run_id = ?", (run_id,))) is None:
            raise SessionUnknown(run_id)
        return found

    def find_batches(self, wanted: str) -> list[str]:
        """Return the batch with an id, else those whose ids have that beginning; for `last` the newest one."""
        if wanted == LAST:
            rows = self._db.fetch("SELECT batch_id FROM runs WHERE batch_id IS NOT NULL ORDER BY rowid DESC LIMIT 1")
        else:
            rows = self._db.fetch("SELECT batch_id FROM runs WHERE batch_id = ? LIMIT 1", (wanted,)) or self._db.fetch(
                "SELECT DISTINCT batch_id FROM runs WHERE batch_id IS NOT NULL AND substr(batch_id, 1, ?) = ?",
                (len(wanted), wanted),
            )
        return [batch_id for (batch_id,) in rows]

    def count_batch(self, batch_id: str) -> dict[RunStatus, int]:
        """Return the number of runs of a batch by status, without those that another run repeats."""
        condition = f"batch_id = ? AND {UNREPEATED}"
        rows = self._db.fetch(f"SELECT status, count(*) FROM runs WHERE {condition} GROUP BY status", (batch_id,))  # noqa: S608  # own
        return {status: int(count) for status, count in rows}

    def failed_in_batch(self, batch_id: str) -> list[RunState]:
        """Return the failed runs of a batch that no other run repeats, whole.

        Raises:
            RowDamaged: One of them is damaged.
        """
        condition = f"batch_id = ? AND status = 'failed' AND {UNREPEATED}"
        return self.select(condition, batch_id, is_strict=True)

    def repeated(self) -> set[str]:
        """Return the runs that others repeat."""
        return {run_id for (run_id,) in self._db.fetch("SELECT succeeds FROM runs WHERE succeeds IS NOT NULL")}

    def check_unrepeated(self, run_ids: Collection[str]) -> None:
        """Lock runs, as a step of a transaction, and raise `RepeatedBefore` if another run repeats one."""
        wanted = (self._db.listed(run_ids),)
        self._db.fetch(f"SELECT 1 FROM runs WHERE run_id {self._db.among_sql}{self._db.lock_sql}", wanted)  # noqa: S608  # own
        rows = self._db.fetch(f"SELECT succeeds, run_id FROM runs WHERE succeeds {self._db.among_sql}", wanted)  # noqa: S608  # own
        if rows:
            raise RepeatedBefore(*rows[0])

    def find_successor(self, run_id: str) -> str | None:
        """Return the run that repeats one: after a usage limit, or because somebody has run it again from a page."""
        rows = self._db.fetch("SELECT run_id FROM runs WHERE succeeds = ?", (run_id,))
        return rows[0][0] if rows else None

    def check_held(self, run_id: str, attempt: int, owner: str | None = None, *, or_ended: bool = False) -> None:
        """Raise `NotHeld` unless a run is running with an attempt, of an owner if one is given; and lock its row."""
        statement = f"SELECT status, attempt, owner FROM runs WHERE run_id = ?{self._db.lock_sql}"  # noqa: S608  # own words
        rows = self._db.fetch(statement, (run_id,))
        if not rows:
            raise NotHeld(run_id, f"the store does not know it. {BEHIND}")
        ((status, current, current_owner),) = rows
        if current < attempt:
            raise NotHeld(run_id, f"the store lost attempt {attempt}, and it is performed again. {BEHIND}")
        if current != attempt:
            raise NotHeld(run_id, f"attempt {current} has taken the place of attempt {attempt}")
        if status != "running" and not or_ended:
            raise NotHeld(run_id, f"it is {status}")
        if owner not in {None, current_owner}:
            raise NotHeld(run_id, f"the store lost this claim, and another worker performs the run again. {BEHIND}")
