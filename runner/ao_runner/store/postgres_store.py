"""The store of many hosts: a PostgreSQL database, and its own queries.

Every change to a run writes or locks its row, so that a process that has lost the run is refused (a fence). Leases
belong to workers and use the clock of the server.
"""

import os
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Self

import psycopg
from psycopg import errors

from ao_protocol.addresses import without_credentials
from ao_runner.errors import RunnerError
from ao_runner.store.columns import NO_TEXT, Row
from ao_runner.store.engine import ConstraintBroken
from ao_runner.store.event_table import EventTable
from ao_runner.store.opening import NoSuchStore
from ao_runner.store.ownership import IDLE_LEASE_SECONDS, REMOTE, Owner, Wakeup, host_name, uptime_seconds
from ao_runner.store.postgres_layout import LAYOUTS, check_encoding, layout_of, make_partitions, migrate
from ao_runner.store.postgres_notifications import CHANNEL, UNANSWERED_SECONDS, listening, settings_of
from ao_runner.store.records import TAIL_CHARACTERS, RunState, StoredEvent
from ao_runner.store.store import LatePart, Store
from ao_runner.store.store_errors import NEWER, Damage, RowConflict, StoreLocked, StoreUnreachable, StoreUnusable
from ao_runner.store.worker_table import CLAIMED, WORKER_COLUMNS, Offer, WorkerTable, offer_text, owner_of

CLAIM_LOCK: Final = 0x_A0_C1_A1
"""The key of the advisory lock for claims that count running runs."""
PATIENCE_SECONDS: Final = 30.0
"""How long a query outside of a transaction waits for a server that is restarted."""
CLOCK_SECONDS: Final = 60.0
"""How long a time of the server's clock is counted on."""
ROWS_AT_ONCE: Final = 8
"""Rows of events in memory at a time; a row holds up to a megabyte, or one larger event."""

_BEGIN: Final = f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = {UNANSWERED_SECONDS * 1000}"
"""Without the timeout, a host that is cut off would keep the locks of its last transaction for hours. It is sent with
each transaction, since poolers keep no settings of sessions."""
_NO_SORTS: Final = "set_config('enable_sort', 'off', true)"
"""Without it, a claim reads and sorts the whole queue where the server's statistics are older than the queue."""

_TAIL: Final = (
    f"(SELECT right(line, {TAIL_CHARACTERS}) FROM events WHERE events.run_id = runs.run_id AND events.week = runs.week"  # noqa: S608
    " AND (strpos(line, '\"heartbeat\"') = 0 OR events.last_seq > seq) ORDER BY seq DESC LIMIT 1)"
)
_ADD_EVENTS: Final = """
WITH held AS (
    UPDATE runs SET last_seq = ? WHERE run_id = ? AND attempt = ? AND status = 'running' AND last_seq = ?
    AND owner = coalesce(?, owner) RETURNING run_id, week
)
INSERT INTO events (week, run_id, seq, last_seq, line) SELECT week, run_id, ?, ?, ? FROM held
"""
_INSERT_EVENTS: Final = """
WITH written AS (UPDATE runs SET last_seq = ? WHERE run_id = ? AND last_seq < ? RETURNING run_id, week)
INSERT INTO events (week, run_id, seq, last_seq, line) SELECT week, run_id, ?, ?, ? FROM written
"""
_RENEW: Final = """
INSERT INTO workers (worker_id, host, pid, offer, lease_until)
VALUES (?, ?, ?, ?, clock_timestamp() + make_interval(secs => ?))
ON CONFLICT (worker_id) DO UPDATE SET offer = excluded.offer, lease_until = excluded.lease_until,
outbox_seconds = coalesce(?, workers.outbox_seconds)
"""
LOST: Final = """
runs LEFT JOIN workers ON worker_id = owner
WHERE status = 'running' AND (lease_until IS NULL OR lease_until < clock_timestamp())
"""
"""The running runs whose worker is gone, as the end of a query."""
_LOST: Final = f"SELECT run_id FROM {LOST} FOR UPDATE OF runs SKIP LOCKED"  # noqa: S608  # own words
_STRANDED: Final = """
SELECT run_id FROM runs JOIN sessions ON sessions.session_id = runs.session_id
WHERE status = 'queued' AND mode = 'resume' AND host IS NOT NULL
AND greatest(queued_at, not_before)::timestamptz < clock_timestamp() - make_interval(secs => ?)
AND NOT EXISTS (SELECT 1 FROM workers WHERE workers.host = sessions.host
                AND lease_until > clock_timestamp() - make_interval(secs => ?))
FOR UPDATE OF runs SKIP LOCKED
"""
_STILL_LOST: Final = """run_id = ANY(?) AND status = 'running'
AND NOT EXISTS (SELECT 1 FROM workers WHERE worker_id = owner AND lease_until >= clock_timestamp())"""


class PostgresEvents(EventTable):
    """The events in a PostgreSQL store."""

    def add(self, run_id: str, first_seq: int, lines: Sequence[bytes]) -> None:
        """See `EventTable`."""
        last_seq = first_seq + len(lines) - 1
        text = b"\n".join(lines).decode()
        if not self._db.write(_INSERT_EVENTS, (last_seq, run_id, first_seq, first_seq, last_seq, text)):
            raise RowConflict(f"event {first_seq} of run {run_id}")

    def add_of_attempt(
        self, run_id: str, attempt: int, first_seq: int, lines: Sequence[bytes], owner: str | None = None
    ) -> int:
        """See `EventTable`. One statement, unless some of the events are stored, or events before them are missing."""
        last_seq = first_seq + len(lines) - 1
        text = b"\n".join(lines).decode()
        values = (last_seq, run_id, attempt, first_seq - 1, owner, first_seq, last_seq, text)
        if self._db.write(_ADD_EVENTS, values):
            return last_seq
        return super().add_of_attempt(run_id, attempt, first_seq, lines, owner)

    def of_session(self, session_id: str, after: int = 0, run_id: str | None = None) -> Iterator[StoredEvent]:
        """See `EventTable`. Positions of a session increase in the order of commits: its runs run one at a time."""
        runs = self._db.fetch(
            "SELECT run_id, week FROM runs WHERE session_id = ? AND run_id = coalesce(?, run_id)", (session_id, run_id)
        )
        of_runs = ([row[0] for row in runs], [row[1] for row in runs])
        while rows := self._db.fetch(
            "SELECT position, run_id, seq, line FROM events WHERE run_id = ANY(?) AND week = ANY(?) AND position > ?"
            " ORDER BY position LIMIT ?",
            (*of_runs, after, ROWS_AT_ONCE),
        ):
            for row in rows:
                yield from self._split(*row)
            after = rows[-1][0]


@dataclass(eq=False)
class PostgresWorkers(WorkerTable):
    """The workers in a PostgreSQL store."""

    _announced: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    """The host, process and offer of each owner that claims runs through this connection."""

    def mark_claimed(self, offer: Offer, run_ids: Sequence[str]) -> list[Row]:
        """See `WorkerTable`. A run whose session has become busy meanwhile is left out, and the others are marked."""
        try:
            rows = self._marked(offer, run_ids)
        except ConstraintBroken:
            rows = []
            for run_id in run_ids:
                with suppress(ConstraintBroken):
                    rows += self._marked(offer, [run_id])
        if rows:
            self._renew(offer.owner, offer.lease_seconds)
        return rows

    def _marked(self, offer: Offer, run_ids: Sequence[str]) -> list[Row]:
        with self._db.transaction():
            return self._db.fetch(
                "UPDATE runs SET status = 'running', owner = ?, has_begun = 0, attempt = attempt + 1"  # noqa: S608
                f" WHERE status || '' = 'queued' AND run_id = ANY(?) RETURNING {CLAIMED.columns()}",
                (offer.owner, list(run_ids)),
            )

    def renew_leases(self, owner: str, lease_seconds: float, outbox_seconds: float = 0.0) -> set[tuple[str, int]]:
        """See `WorkerTable`. A worker without runs has at least `IDLE_LEASE_SECONDS`, until its next claim."""
        rows = self._db.fetch("SELECT run_id, attempt FROM runs WHERE status = 'running' AND owner = ?", (owner,))
        self._renew(owner, lease_seconds if rows else max(lease_seconds, IDLE_LEASE_SECONDS), outbox_seconds)
        return {(run_id, attempt) for run_id, attempt in rows}

    def _renew(self, owner: str, lease_seconds: float, outbox_seconds: float | None = None) -> None:
        announced = self._announced.get(owner, (self._db.host or "", os.getpid(), "{}"))
        self._db.write(_RENEW, (owner, *announced, lease_seconds, outbox_seconds))
        self._db.keep_partitions()

    def lost_runs(self) -> list[RunState]:
        """See `WorkerTable`. The rows stay locked until the end of the transaction.

        The locked rows are checked again: one that changed before it was locked may belong to a living worker by now.
        """
        found = [run_id for (run_id,) in self._db.fetch(_LOST)]
        return self._runs.select(_STILL_LOST, found) if found else []

    def stranded_runs(self, gone_seconds: float) -> list[RunState]:
        """See `WorkerTable`."""
        found = [run_id for (run_id,) in self._db.fetch(_STRANDED, (gone_seconds, gone_seconds))]
        return self._runs.select("run_id = ANY(?)", found) if found else []

    def join(self, offer: Offer) -> None:
        """See `WorkerTable`."""
        pid = 0 if offer.owner.startswith(REMOTE) else os.getpid()
        self._announced[offer.owner] = (offer.host or self._db.host or "", pid, offer_text(offer))
        self._renew(offer.owner, offer.lease_seconds)

    def leave(self, owner: str) -> None:
        """See `WorkerTable`. Its lease goes on: the next worker of this host may deliver what it has left."""
        self._announced.pop(owner, None)
        self._db.write("UPDATE workers SET offer = '{}' WHERE worker_id = ?", (owner,))

    def living(self) -> dict[str, Owner]:
        """See `WorkerTable`."""
        alive = "lease_until > clock_timestamp()"
        rows = self._db.fetch(f"SELECT worker_id, {WORKER_COLUMNS} FROM workers WHERE {alive}")  # noqa: S608  # own names
        return {worker_id: owner_of(*row) for worker_id, *row in rows}

    def lease_seconds(self) -> dict[str, float]:
        """See `WorkerTable`."""
        rows = self._db.fetch(
            "SELECT worker_id, extract(epoch FROM lease_until - clock_timestamp())::float8 FROM workers"
        )
        return {str(worker_id): float(seconds) for worker_id, seconds in rows}


class PostgresStore(Store):
    """A store in a database, created if the database is empty.

    The connection is made anew if it was lost. A query outside of a transaction then waits at most `patience_seconds`.
    """

    waits_for_a_server: ClassVar[bool] = True
    own_run_columns: ClassVar[tuple[str, ...]] = ("schema_name",)
    greatest: ClassVar[str] = "greatest"
    beginning_sql: ClassVar[str] = "to_json(left({column}, {characters}))"
    last_seq_sql: ClassVar[str] = "runs.last_seq"
    among_sql: ClassVar[str] = "= ANY(?)"
    tags_sql: ClassVar[str] = "requires::jsonb <@ ?::jsonb"
    now_sql: ClassVar[str] = """to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""
    claim_lock_sql: ClassVar[str] = " FOR UPDATE OF runs SKIP LOCKED"
    claim_setting_sql: ClassVar[str] = _NO_SORTS
    lock_sql: ClassVar[str] = " FOR UPDATE"
    seconds_sql: ClassVar[str] = "ended_at::timestamptz - started_at::timestamptz"
    model_sql: ClassVar[str] = "executor_config::json ->> 'model'"
    tail_sql: ClassVar[str] = _TAIL
    workers: "LatePart[WorkerTable]" = LatePart("postgres_store", "PostgresWorkers", "runs")

    def __init__(self, home: Path, url: str, name: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Connect to the database at `url`, which messages call `name`.

        Raises:
            StoreUnusable: The database has another encoding, or was made by an incompatible version of this program.
            StoreUnreachable: The server does not answer or refuses the connection.
        """
        self.home = home
        self.place = name
        self.damage = Damage()
        self.is_writable = True
        self.host = host_name()
        self._url = url
        self._patience_seconds = patience_seconds
        self._partitions_until = 0.0
        self._clock: tuple[datetime, float] | None = None
        """A time of the server's clock, and the uptime of this host then."""
        self._depth = 0
        """The number of transactions that are open, one inside of the other."""
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        Store.__init__(self, PostgresEvents)
        with self.explaining():
            _ = self.connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()

    @property
    def connection(self) -> "psycopg.Connection[tuple[Any, ...]]":
        """The connection, made anew if it was lost outside of a transaction."""
        if self._connection is None or self._connection.closed:
            if self._depth:
                raise psycopg.OperationalError("the connection was lost in a transaction")
            connection = connect(self._url)
            try:
                _check_layout(connection, self.place)
            except BaseException:
                connection.close()
                raise
            self._connection, self._clock = connection, None
        return self._connection

    def now(self) -> datetime:
        """See `Engine`: the clock of the server, asked for once a minute and then counted on by this host's uptime."""
        if self._clock is None or uptime_seconds() - self._clock[1] > CLOCK_SECONDS:
            ((found,),) = self.fetch("SELECT clock_timestamp()")
            self._clock = found.astimezone(UTC), uptime_seconds()
        return self._clock[0] + timedelta(seconds=uptime_seconds() - self._clock[1])

    def fetch(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """See `Engine`."""
        until = time.monotonic() + self._patience_seconds
        while True:
            try:
                with self.explaining():
                    return list(self.connection.execute(_in_psycopg(statement), _storable(values)).fetchall())
            except StoreUnreachable as error:
                is_repeatable = statement.lstrip().startswith("SELECT") and not self._depth
                is_read_only = isinstance(error.__cause__, errors.ReadOnlySqlTransaction)
                if is_read_only or not is_repeatable or time.monotonic() > until:
                    raise
                time.sleep(0.5)

    def write(self, statement: str, values: Sequence[object] = ()) -> int:
        """See `Engine`."""
        with self.explaining():
            return self.connection.execute(_in_psycopg(statement), _storable(values)).rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Engine`. A transaction inside of another one is a savepoint."""
        with self.explaining(), self.connection.transaction() if self._depth else self._whole_transaction():
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    @contextmanager
    def _whole_transaction(self) -> Iterator[None]:
        connection = self.connection
        connection.execute(_BEGIN)
        try:
            yield
        except BaseException:
            with suppress(psycopg.Error):  # the connection is lost, and the server rolls back by itself
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """See `Engine`."""
        try:
            yield
        except errors.CheckViolation as error:  # the tables have no other checks
            raise StoreUnreachable(self.place, f"`ao store migrate` is due: {_one_line(error)}") from error
        except errors.IntegrityError as error:
            kind = "reference" if isinstance(error, errors.ForeignKeyViolation) else "key"
            is_busy = error.diag.constraint_name == "one_running_run"
            raise ConstraintBroken("one_running_run" if is_busy else kind, str(error)) from error  # type: ignore[arg-type]
        except psycopg.Error as error:
            if isinstance(error, errors.ReadOnlySqlTransaction) and self._connection is not None:
                self._connection.close()  # the next connection may find the new primary
            raise explain(self.place, error) from error

    def commit_together(self, steps: Sequence[Callable[[], object]]) -> list[object]:
        """See `Engine`. Only if a step fails, the steps run again, each in a savepoint of its own."""
        try:
            with self.transaction():
                return [step() for step in steps]
        except StoreUnreachable:
            raise
        except (RunnerError, ValueError, ConstraintBroken):
            pass
        with self.transaction():
            return [self._taken(step) for step in steps]

    def _taken(self, step: Callable[[], object]) -> object:
        try:
            with self.transaction():
                return step()
        except StoreUnreachable:
            raise
        except StoreUnusable as error:
            if not isinstance(error.__cause__, psycopg.DataError):
                raise
            return ValueError(error.reason)
        except (RunnerError, ValueError, ConstraintBroken) as error:
            return error

    def check(self) -> None:
        """See `Engine`."""
        with self.explaining():
            _check_layout(self.connection, self.place)

    def listed(self, values: Collection[str]) -> object:
        """See `Engine`."""
        return _storable(values)

    def lock_claims(self) -> None:
        """See `Engine`."""
        self.fetch("SELECT pg_advisory_xact_lock(?)", (CLAIM_LOCK,))

    def keep_partitions(self) -> None:
        """See `Engine`: once an hour, unless this is left to another role of the server."""
        if time.monotonic() > self._partitions_until:
            with self.explaining(), suppress(errors.InsufficientPrivilege):
                make_partitions(self.connection)
            self._partitions_until = time.monotonic() + 3600

    def notify(self) -> None:
        """See `Engine`."""
        self.fetch("SELECT pg_notify(?, '')", (CHANNEL,))

    @asynccontextmanager
    async def listening(self, owner: str, tell: Callable[[str], None]) -> AsyncIterator[Wakeup]:
        """See `Engine`."""
        async with listening(self._url, tell) as wakeup:
            yield wakeup


def connect(url: str) -> "psycopg.Connection[tuple[Any, ...]]":
    """Connect to a server, without prepared statements, which poolers do not keep.

    Raises:
        NoSuchStore: The URL has a parameter that libpq does not know; its message would quote a part of the URL.
        psycopg.Error: It is not there, or refuses the connection.
    """
    try:
        return psycopg.connect(url, autocommit=True, prepare_threshold=None, **settings_of(url))
    except psycopg.ProgrammingError:
        raise NoSuchStore from None


def explain(place: str, error: psycopg.Error) -> RunnerError:
    """Return the runner error for an error of the server or of its connection."""
    match error:
        case errors.LockNotAvailable():
            return StoreLocked(place, _one_line(error))
        case psycopg.OperationalError() | psycopg.InterfaceError() | errors.ReadOnlySqlTransaction():
            return StoreUnreachable(place, _one_line(error))
        case _:
            return StoreUnusable(place, _one_line(error))


def _check_layout(connection: "psycopg.Connection[tuple[Any, ...]]", place: str) -> None:
    """Create the tables in an empty database, and check that this program can use those of any other.

    Raises:
        StoreUnusable: It cannot, or the encoding is not UTF8.
    """
    check_encoding(connection, place)
    layout, oldest_program = layout_of(connection)
    if layout == 0:
        layout, oldest_program = migrate(connection)[1], 0
    if layout < len(LAYOUTS):
        raise StoreUnusable(place, f"it has layout {layout}, and this program needs {len(LAYOUTS)}: ao store migrate")
    if oldest_program > len(LAYOUTS):
        raise StoreUnusable(place, NEWER.format(layout=layout, known=len(LAYOUTS)))


_UNSTORABLE: Final = re.compile(f"\0|{NO_TEXT.pattern}")


def _storable(values: Collection[object]) -> list[object]:
    return [_UNSTORABLE.sub("\ufffd", value) if isinstance(value, str) else value for value in values]


@cache
def _in_psycopg(statement: str) -> str:
    return statement.replace("?", "%s")


def _one_line(error: psycopg.Error) -> str:
    return without_credentials(" ".join(str(error).split())) or type(error).__name__
