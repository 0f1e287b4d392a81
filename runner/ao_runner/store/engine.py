"""What a database engine provides to the queries of a store. SQLite and PostgreSQL are behind it."""

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Literal, NoReturn, Protocol, Self, TypeVar

from ao_protocol.framing import MAX_DEPTH, SURROGATE_ESCAPE, refuse_depth
from ao_protocol.wire import JsonObject
from ao_runner.store.ownership import Wakeup
from ao_runner.store.records import Damage, RowDamaged

NO_TEXT: Final = re.compile("[\ud800-\udfff]")
"""Halves of surrogate pairs."""
Record = TypeVar("Record")
Row = Sequence[Any]


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
    keeps_nul: ClassVar[bool]
    """Whether texts can contain NUL characters."""
    generated_columns: ClassVar[frozenset[str]]
    """The columns of `runs` that the engine computes by itself."""
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
    tail_sql: ClassVar[str]
    """The SQL expression for the end of the last events of a row of `runs`, heartbeats excepted."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    def fetch(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run a statement and return its rows."""

    @abstractmethod
    def write(self, statement: str, values: Sequence[object] = ()) -> int:
        """Run a statement and return the number of rows that it changed.

        Raises:
            StoreUnwritable: The store cannot be written now.
            ConstraintBroken: A rule of the tables forbids the change.
        """

    @abstractmethod
    def readable_rows(
        self, kind: str, statement: tuple[str, str, str], values: Sequence[object], damage: Damage
    ) -> list[Row]:
        """Return the rows of a statement, given as columns, table and clause. Unreadable ones go to `damage`."""

    def rows(
        self,
        kind: str,
        statement: tuple[str, str, str],
        values: Sequence[object],
        convert: Callable[[Row], Record],
        damage: Damage | None = None,
    ) -> list[Record]:
        """Return the converted rows of a statement, given as columns, table and clause.

        Damaged rows go to `damage`. Without `damage`, the first one is raised as `RowDamaged`.
        """
        found = Damage() if damage is None else damage
        records = []
        for row in self.readable_rows(kind, statement, values, found):
            try:
                records.append(convert(row))
            except RowDamaged as damaged:
                found.add(damaged)
        if damage is None:
            for first in found.values():
                raise first
        return records

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
    def listening(self, owner: str) -> AbstractAsyncContextManager[Wakeup]:
        """Yield a wakeup that `notify` of any process triggers inside the block."""


class Part:
    """The queries about one subject, over the engine of a store."""

    def __init__(self, engine: Engine) -> None:
        self._db = engine


def insertion(table: str, values: Sequence[str] | dict[str, object]) -> str:
    """Return the statement that inserts one row with the named columns."""
    return f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"  # noqa: S608  # own


def end_of_prefix(prefix: str) -> str:
    """Return the least text behind all texts with a prefix, in the order of code points."""
    return f"{prefix}\U0010ffff"


@contextmanager
def reading(kind: str, row: Row, row_id: object = None) -> Iterator[None]:
    """Convert errors of the block about a row, and bytes that are not text, into `RowDamaged`.

    The id of the row is its first value, unless `row_id` is given.
    """
    found = str(row[0] if row_id is None else row_id)
    for value in row:
        if isinstance(value, bytes):
            raise RowDamaged(kind, found, f"a text column holds bytes that are not UTF-8: {value[:20]!r}")
    try:
        yield
    except (ValueError, TypeError, RecursionError) as error:
        raise RowDamaged(kind, found, str(error)) from error


def json_object(column: str, text: Any) -> JsonObject:  # noqa: ANN401  # a damaged row holds anything
    """Return the object in a column.

    Raises:
        ValueError: The column contains no object.
    """
    try:
        if text.count("[") + text.count("{") > MAX_DEPTH:
            refuse_depth(text)
        document = json.loads(_as_text(text), parse_constant=_refuse_constant)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"column {column} holds no JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError(f"column {column} holds a JSON {type(document).__name__}, expected an object")  # noqa: TRY004
    return document


def _as_text(text: str) -> str:
    """Return JSON with U+FFFD for halves of surrogate pairs, which earlier versions stored."""
    if not SURROGATE_ESCAPE.search(text):
        return text
    return NO_TEXT.sub("\ufffd", json.dumps(json.loads(text), ensure_ascii=False))


def storable(value: object, unstorable: re.Pattern[str] = NO_TEXT) -> object:
    """Return a value for a statement, with U+FFFD for what no column can hold.

    Names that people choose are refused earlier; these are those of executors, and ids that are looked for.
    """
    if not isinstance(value, str) or (value.isascii() and "\0" not in value):
        return value
    return unstorable.sub("\ufffd", value)


without_nul: Final = partial(storable, unstorable=re.compile(f"\0|{NO_TEXT.pattern}"))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
