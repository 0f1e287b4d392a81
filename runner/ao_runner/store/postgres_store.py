"""The store of many hosts: a PostgreSQL database.

Every change to a run writes or locks its row, so that a process that has lost the run is refused (a fence). Leases
belong to workers and use the clock of the server.
"""

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
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
from ao_runner.store.opening import NoSuchStore
from ao_runner.store.ownership import (
    Wakeup,
    host_name,
)
from ao_runner.store.postgres_layout import LAYOUTS, check_encoding, layout_of, make_partitions, migrate
from ao_runner.store.postgres_tables import PostgresEvents, PostgresWorkers
from ao_runner.store.records import TAIL_CHARACTERS
from ao_runner.store.store import Store
from ao_runner.store.store_errors import Damage, StoreLocked, StoreUnreachable, StoreUnusable

CHANNEL: Final = "ao_store"
CLAIM_LOCK: Final = 0x_A0_C1_A1
"""The key of the advisory lock for claims that count running runs."""
CONNECT_SECONDS: Final = 10
UNANSWERED_SECONDS: Final = 10
"""How long sent data may stay unacknowledged before the connection counts as broken."""
PATIENCE_SECONDS: Final = 30.0
"""How long a query outside of a transaction waits for a server that is restarted."""
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
    tail_sql: ClassVar[str] = _TAIL

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
        self._depth = 0
        """The number of transactions that are open, one inside of the other."""
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        Store.__init__(self, PostgresEvents, PostgresWorkers)
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
            self._connection = connection
        return self._connection

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
    async def listening(self, owner: str) -> AsyncIterator[Wakeup]:
        """See `Engine`. The connection is one of its own: to `AO_STORE_DIRECT` if `AO_STORE` is that of a pooler."""
        wakeup = Wakeup()
        task = asyncio.create_task(_listen(os.environ.get("AO_STORE_DIRECT") or self._url, wakeup))
        try:
            yield wakeup
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def connect(url: str) -> "psycopg.Connection[tuple[Any, ...]]":
    """Connect to a server, without prepared statements, which poolers do not keep.

    Raises:
        NoSuchStore: The URL has a parameter that libpq does not know; its message would quote a part of the URL.
        psycopg.Error: It is not there, or refuses the connection.
    """
    try:
        return psycopg.connect(url, autocommit=True, prepare_threshold=None, **_settings(url))
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


async def _listen(url: str, wakeup: Wakeup) -> None:
    """Trigger the wakeup at each notification. If the connection is lost, waiting tasks poll until it is back."""
    while True:
        with suppress(psycopg.Error):
            async with await psycopg.AsyncConnection.connect(url, autocommit=True, **_settings(url)) as connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                wakeup.notify()  # something may have come before
                async for _ in connection.notifies():
                    wakeup.notify()
        await asyncio.sleep(1)


def _settings(url: str) -> dict[str, Any]:
    settings = {
        "application_name": "ao",
        "connect_timeout": CONNECT_SECONDS,
        "keepalives_idle": UNANSWERED_SECONDS,
        "tcp_user_timeout": UNANSWERED_SECONDS * 1000,
    }
    return {name: value for name, value in settings.items() if f"{name}=" not in url}


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
        raise StoreUnusable(place, f"a newer version of ao changed it to layout {layout}; update this program")


_UNSTORABLE: Final = re.compile(f"\0|{NO_TEXT.pattern}")


def _storable(values: Collection[object]) -> list[object]:
    return [_UNSTORABLE.sub("\ufffd", value) if isinstance(value, str) else value for value in values]


@cache
def _in_psycopg(statement: str) -> str:
    return statement.replace("?", "%s")


def _one_line(error: psycopg.Error) -> str:
    return without_credentials(" ".join(str(error).split())) or type(error).__name__
