"""What a database engine provides to the queries of a store. SQLite and PostgreSQL are behind it."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Literal, Protocol, Self

from ao_runner.store.columns import Record, Row, Stored
from ao_runner.store.ownership import Wakeup
from ao_runner.store.store_errors import Damage, RowDamaged

ROWS_AT_ONCE: Final = 100
"""Maximum number of rows in one statement, whose values both engines limit: SQLite to 32,766."""


class ConstraintBroken(Exception):
    """A change breaks a rule of the tables: the kind of the rule, and the words of the engine."""

    def __init__(self, kind: Literal["key", "one_running_run", "reference"], message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind


class Engine(Protocol):
    """The connection to one database, and the few queries for which engines need SQL of their own.

    All other SQL is shared: it marks values with `?`, contains no other question mark and no percent sign, and uses the
    tables and the row numbers (`rowid`) that both layouts have. Whatever a method has written when it returns survives
    a crash of this process and of its machine. A `with` block owns the connection.
    """

    home: Path
    """The folder of this host for everything that is not in the store."""
    place: str
    """The name of the store in messages, without a password."""
    damage: Damage
    """The damaged rows that lists have omitted."""
    host: str | None
    """The name of this host, to which the sessions of its runs belong; None in the store of one host."""
    is_writable: bool
    waits_for_a_server: ClassVar[bool]
    """Whether a call can take as long as a network does, so that an event loop must not make it."""
    own_run_columns: ClassVar[tuple[str, ...]]
    """The column of `runs` for the name of the contract's schema, unless the engine computes it by itself."""
    greatest: ClassVar[str]
    """The SQL function that returns the greatest of its arguments."""
    beginning_sql: ClassVar[str]
    """The SQL expression for the begin of a column as JSON; see `brief_fields`."""
    last_seq_sql: ClassVar[str]
    """The SQL expression for the `seq` of the last event of a row of `runs`; null or 0 if there is none."""
    among_sql: ClassVar[str]
    """The SQL condition, behind an expression, that it is one of the values that `listed` made into one value."""
    tags_sql: ClassVar[str]
    """The SQL condition that the JSON list `requires` has only values of another one, which the mark stands for."""
    now_sql: ClassVar[str]
    """The SQL expression for the time of the store's clock as a timestamp."""
    claim_lock_sql: ClassVar[str]
    """The SQL clause that locks the rows of `runs`, and skips those that another process has locked."""
    claim_setting_sql: ClassVar[str]
    """The SQL expression whose evaluation prepares the transaction of a claim for reading the queue in its order."""
    lock_sql: ClassVar[str]
    """The SQL clause behind a query that locks its rows until the end of the transaction."""
    seconds_sql: ClassVar[str]
    """The SQL expression for how long a row of `runs` took, in any unit; null if it has not ended."""
    model_sql: ClassVar[str]
    """The SQL expression for the `model` in the `executor_config` of a row of `sessions`; null if there is none."""
    tail_sql: ClassVar[str]
    """The SQL expression for the end of the last events of a row of `runs`, heartbeats excepted."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    def now(self) -> datetime:
        """Return the time of the store's clock, by which all stored times of runs and all durations are measured."""

    @abstractmethod
    def fetch(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run a statement and return its rows.

        U+FFFD replaces what no column can hold in the values: in names of executors, and in ids that are looked for.
        Names that people choose are refused earlier.
        """

    @abstractmethod
    def write(self, statement: str, values: Sequence[object] = ()) -> int:
        """Run a statement and return the number of rows that it changed.

        Raises:
            StoreUnwritable: The store cannot be written now.
            ConstraintBroken: A rule of the tables forbids the change.
        """

    def insert(self, table: str, *rows: Mapping[str, object]) -> None:
        """Insert rows in their order, each of values by the same columns; see `write`."""
        for first in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[first : first + ROWS_AT_ONCE]
            marks = ", ".join([f"({', '.join('?' * len(some[0]))})"] * len(some))
            values = [value for row in some for value in row.values()]
            self.write(f"INSERT INTO {table} ({', '.join(some[0])}) VALUES {marks}", values)  # noqa: S608  # own names

    def copy(self, table: str, columns: Sequence[str], new: Mapping[str, object], of: tuple[str, str]) -> None:
        """Insert a copy of the row with a key, given as column and value: some columns of it, and new values."""
        copied = ", ".join(columns)
        marks = ", ".join("?" * len(new))
        self.write(
            f"INSERT INTO {table} ({', '.join(new)}, {copied})"  # noqa: S608  # own names
            f" SELECT {marks}, {copied} FROM {table} WHERE {of[0]} = ?",
            (*new.values(), of[1]),
        )

    def records(
        self,
        stored: Stored[Record],
        source: str,
        values: Sequence[object] = (),
        expressions: Mapping[str, str] | None = None,
        *,
        is_strict: bool = False,
    ) -> list[Record]:
        """Return the records in the rows of a query, of which `source` is the part behind FROM.

        Damaged rows go to `damage`; the first one is raised as `RowDamaged` if `is_strict`.
        """
        records = []
        for row in self.fetch(f"SELECT {stored.columns(expressions)} FROM {source}", values):  # noqa: S608  # own words
            try:
                records.append(stored.read(row))
            except RowDamaged as damaged:
                if is_strict:
                    raise
                self.damage.add(damaged)
        return records

    def record(
        self,
        stored: Stored[Record],
        source: str,
        values: Sequence[object],
        expressions: Mapping[str, str] | None = None,
    ) -> Record | None:
        """Return the record in the first row of a query, see `records`, or None; raises `RowDamaged`."""
        return next(iter(self.records(stored, source, values, expressions, is_strict=True)), None)

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Make a `with` block atomic.

        Raises:
            StoreUnwritable: The store cannot be written now.
        """

    @abstractmethod
    def explaining(self) -> AbstractContextManager[None]:
        """Convert errors of the engine in a `with` block into `StoreUnwritable` or `StoreDamaged`."""

    @abstractmethod
    def commit_together(self, steps: Sequence[Callable[[], object]]) -> list[object]:
        """Run steps in one transaction and return the return value of each, or its `RunnerError` or `ValueError`.

        A failed step is rolled back, and the others continue.

        Raises:
            StoreUnwritable: The store cannot be written now, by any step.
            StoreDamaged: The contents of the store cannot be read or changed.
        """

    @abstractmethod
    def check(self) -> None:
        """Check the store.

        Raises:
            StoreDamaged: A part is broken; the error names the first one.
        """

    @abstractmethod
    def listed(self, values: Collection[str]) -> object:
        """Return the value for the mark in `among_sql`."""

    @abstractmethod
    def lock_claims(self) -> None:
        """Let no other process claim runs until the end of the transaction."""

    def keep_partitions(self) -> None:
        """Create the tables for events of the next weeks, where there are such."""
        return

    def overwrite_what_is_deleted(self) -> None:
        """Let no deleted text stay in the file of the store, where there is one."""
        return

    @abstractmethod
    def notify(self) -> None:
        """Wake the processes that wait for a change. A notification may be lost, so waiting processes also poll."""

    @abstractmethod
    def listening(self, owner: str, tell: Callable[[str], None]) -> AbstractAsyncContextManager[Wakeup]:
        """Yield a wakeup that `notify` of any process triggers inside the block.

        `tell` receives one sentence if notifications do not arrive, so that only polling finds changes.
        """


@dataclass(eq=False)
class Part:
    """The queries about one subject, over the engine of a store, and the parts that they need."""

    _db: Engine


def end_of_prefix(prefix: str) -> str:
    """Return the least text behind all texts with a prefix, in the order of code points."""
    return f"{prefix}\U0010ffff"
