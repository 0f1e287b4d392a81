"""How a record is stored: a dataclass whose fields are columns, each declared once, for both engines.

The metadata of a field says what its name and type do not: how its column is written and read, and whether a copy of
the row takes it over. A new field of a run is one line in `records`, and a step in `ADDED`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, Final, Generic, NamedTuple, NoReturn, TypeVar

from ao_protocol.framing import MAX_DEPTH, SURROGATE_ESCAPE, refuse_depth
from ao_protocol.wire import JsonObject
from ao_runner.store.store_errors import RowDamaged

ADDED: Final[tuple[str, ...]] = (
    "ALTER TABLE runs ADD COLUMN labels TEXT",
    "ALTER TABLE runs ADD COLUMN attachments TEXT",
    """ALTER TABLE runs ADD COLUMN batch_id TEXT;
CREATE INDEX runs_of_batches ON runs (batch_id) WHERE batch_id IS NOT NULL""",
    "ALTER TABLE runs ADD COLUMN aside TEXT",
    """ALTER TABLE webhooks ADD COLUMN settings TEXT;
ALTER TABLE webhooks ADD COLUMN delivered_at TEXT;
ALTER TABLE inputs ADD COLUMN told INTEGER;
ALTER TABLE limits ADD COLUMN told INTEGER;
ALTER TABLE workers ADD COLUMN told INTEGER;
CREATE TABLE notices (
    notice_id TEXT PRIMARY KEY, at TEXT NOT NULL, event TEXT NOT NULL, agent_name TEXT NOT NULL, run_id TEXT NOT NULL,
    facts TEXT NOT NULL, notified INTEGER
);
CREATE INDEX notices_by_time ON notices (at);
CREATE INDEX notices_of_runs ON notices (run_id)""",
)
"""The last steps of the layouts of both engines, such as `ALTER TABLE runs ADD COLUMN note TEXT`. Never edit a step;
append a new one. A copy and older programs leave a new column empty."""
NO_TEXT: Final = re.compile("[\ud800-\udfff]")
"""Halves of surrogate pairs."""
Row = Sequence[Any]
Record = TypeVar("Record")


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


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _needed(column: str, value: object) -> object:
    if value is None:
        raise ValueError(f"column {column} is empty")
    return value


class Codec(NamedTuple):
    """How a value is written, and read from the column with a name. None is null, which `read` may refuse."""

    write: Callable[[Any], object]
    read: Callable[[str, Any], object]
    is_needed: bool = False


COPIED: Final[dict[str, object]] = {"is_copied": True}
"""The metadata of a field that a copy of its row takes over. More metadata may be added to it with `|`."""
OBJECT: Final[dict[str, object]] = {"codec": Codec(json.dumps, json_object)}
OBJECT_OR_NONE: Final[dict[str, object]] = {
    "codec": Codec(json.dumps, lambda name, text: {} if text is None else json_object(name, text), is_needed=True)
}
VALUE: Final[dict[str, object]] = {"codec": Codec(json.dumps, lambda _, text: json.loads(text))}
ITEMS: Final[dict[str, object]] = {
    "codec": Codec(json.dumps, lambda _, text: tuple(json.loads(text or "[]")), is_needed=True)
}
FLAG: Final[dict[str, object]] = {"codec": Codec(int, lambda _, number: bool(number))}
NEEDED: Final[dict[str, object]] = {"codec": Codec(str, _needed, is_needed=True)}


class Stored(Generic[Record]):
    """The columns of a dataclass. Nested dataclasses share its row."""

    def __init__(self, kind: str, of: type[Record]) -> None:
        """Read the declaration. `kind` is the word for such a row in messages."""
        self._kind, self._of = kind, of
        # The id is the first column; inherited fields have names only.
        declared = sorted(fields(of), key=lambda one: bool(one.kw_only))  # type: ignore[arg-type]  # a dataclass
        self._parts = {
            one.name: Stored(kind, one.type)
            for one in declared
            if isinstance(one.type, type) and is_dataclass(one.type)
        }
        own = [one for one in declared if one.name not in self._parts]
        self._codecs: dict[str, Codec | None] = {one.name: one.metadata.get("codec") for one in own}
        parts = self._parts.values()
        self.names: tuple[str, ...] = (*(name for part in parts for name in part.names), *self._codecs)
        self.copied: tuple[str, ...] = (
            *(name for part in parts for name in part.copied),
            *(one.name for one in own if "is_copied" in one.metadata),
        )

    def columns(self, expressions: Mapping[str, str] | None = None) -> str:
        """Return the columns for a SELECT, where some fields have an SQL expression instead."""
        instead = expressions or {}
        return ", ".join(instead.get(name, name) for name in self.names)

    def values(self, record: Record) -> dict[str, object]:
        """Return the values to store, by column."""
        found: dict[str, object] = {}
        for name, part in self._parts.items():
            found |= part.values(getattr(record, name))
        for name, codec in self._codecs.items():
            value = getattr(record, name)
            found[name] = value if codec is None or value is None else codec.write(value)
        return found

    def read(self, row: Row) -> Record:
        """Return the record in a row of `columns`.

        Raises:
            RowDamaged: The row contains no valid record.
        """
        with reading(self._kind, row):
            return self._record(dict(zip(self.names, row, strict=True)))

    def _record(self, values: Mapping[str, Any]) -> Record:
        found: dict[str, object] = {name: part._record(values) for name, part in self._parts.items()}
        for name, codec in self._codecs.items():
            value = values[name]
            found[name] = value if codec is None or (value is None and not codec.is_needed) else codec.read(name, value)
        return self._of(**found)
