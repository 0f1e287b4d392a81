"""Recover rows from a damaged file and its log: each page is read separately, so one damaged page affects no other.

The formats are those of https://sqlite.org/fileformat2.html. Only rows with a correct checksum count. Unused pages may
contain deleted rows or older rows of a key: the highest progress of a key is the correct one.
"""

import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from ao_runner.outbox.errors import StateDamaged
from ao_runner.outbox.outbox_file import (
    FILE_NAME,
    PAGE_BYTES,
    FileDamaged,
    OutboxFile,
    Progress,
    Record,
    is_damage,
    progress_of,
    record_of,
)
from ao_runner.run_events import RunKey

Row: TypeAlias = list[str | bytes | int | None]

_BUILDING: Final = "building.sqlite3"
_REBUILT: Final = "rebuilt.sqlite3"
_TABLE_LEAF: Final = 13
_KEYS_COLUMNS: Final = 7
_BATCHES_COLUMNS: Final = 9
_INTEGER_BYTES: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_LOG_HEADER: Final = 32
_FRAME_HEADER: Final = 24
_GROUP_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Lost:
    """Missing events of a key, both ends included."""

    key: RunKey
    from_seq: int
    to_seq: int


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that is missing or not as it was written, and the events that are known to be lost with it.

    `was_cut`: only the last transaction of the log was incomplete. A crash leaves this before the events of the
    transaction are reported as durable, and their numbers are used again.
    """

    path: Path
    lost: tuple[Lost, ...] = ()
    was_cut: bool = False


def open_outbox_file(
    folder: Path, cache_bytes: int, *, may_forget_begun: bool, may_forget: bool
) -> tuple[OutboxFile, dict[RunKey, Progress], list[Record], list[Damage]]:
    """Open the file of an outbox; rebuild a damaged file from its intact parts, and set the damaged one aside.

    Args:
        folder: The folder of the outbox, which is owned.
        cache_bytes: The maximum size of the file's cache in memory.
        may_forget_begun: Whether the coordinator knows the runs that had begun.
        may_forget: Whether notes about runs may be lost, because the last owner left no events.

    Returns:
        The file, the progress of the open keys, all batches without their lines, and the damage.

    Raises:
        StateDamaged: Information that exists nowhere else could be lost.
        OSError: A file cannot be created, read or moved.
        sqlite3.Error: The file cannot be opened for another reason.
    """
    damages = [Damage(aside)] if (aside := _finish_rebuilding(folder)) else []
    if not may_forget and not (folder / FILE_NAME).exists():
        damages.append(Damage(folder / FILE_NAME))
    log = read_log(folder / f"{FILE_NAME}-wal")
    damaged = StateDamaged(folder, "its log is not what was written", "runs that had begun")
    known: dict[RunKey, Progress] | None = None
    if not log.is_damaged:
        try:
            with ExitStack() as undo:
                file = OutboxFile(folder / FILE_NAME, cache_bytes)
                undo.callback(file.close)
                known = file.read_keys()
                records = list[Record]()
                for record in file.read_records():
                    record.parts = []  # memory may not suffice for all lines
                    records.append(record)
                undo.pop_all()
        except (FileDamaged, sqlite3.DatabaseError) as error:
            if isinstance(error, sqlite3.DatabaseError) and not is_damage(error):
                raise
            damaged.reason = str(error)
        else:
            cut = [Damage(folder / f"{FILE_NAME}-wal", was_cut=True)] if log.is_torn else []
            return file, known, records, damages + cut
    if known is None and not (may_forget_begun or may_forget):
        raise damaged
    _rebuild(folder, damaged, known or {}, may_forget=may_forget)
    aside = _finish_rebuilding(folder)
    assert aside is not None, "it was made just now"  # noqa: S101
    file, known, records, _ = open_outbox_file(folder, cache_bytes, may_forget_begun=False, may_forget=False)
    return file, known, records, [*damages, Damage(aside)]


@dataclass(frozen=True, slots=True)
class Log:
    """The write-ahead log: its pages, and whether SQLite will ignore some of them.

    `is_torn`: the last transaction is incomplete, as after a crash. `is_damaged`: an earlier transaction is broken.
    """

    pages: list[tuple[int, bytes]]
    is_torn: bool = False
    is_damaged: bool = False


def read_log(path: Path) -> Log:
    """Read the log of a file. SQLite silently stops at the first frame with a wrong checksum.

    Raises:
        OSError: The log cannot be read.
    """
    content = path.read_bytes() if path.exists() else b""
    if len(content) < _LOG_HEADER + _FRAME_HEADER:
        return Log([])
    order = ">" if content[3] & 1 else "<"
    sums = _sums(content[:24], (0, 0), order)
    has_header = is_whole = struct.pack(">II", *sums) == content[24:32]
    salts = content[16:24] if is_whole else content[40:48]
    pages, whole, unread = list[tuple[int, bytes]](), 0, 0
    for at in range(_LOG_HEADER, len(content) - _FRAME_HEADER - PAGE_BYTES + 1, _FRAME_HEADER + PAGE_BYTES):
        head, page = content[at : at + _FRAME_HEADER], content[at + _FRAME_HEADER : at + _FRAME_HEADER + PAGE_BYTES]
        if head[8:16] != salts:
            is_whole = False
            continue
        if is_whole:
            sums = _sums(head[:8] + page, sums, order)
            is_whole = struct.pack(">II", *sums) == head[16:24]
        number, commits = struct.unpack(">II", head[:8])
        pages.append((number, page))
        whole += is_whole
        unread += bool(commits) and not is_whole
    is_cut = (len(content) - _LOG_HEADER) % (_FRAME_HEADER + PAGE_BYTES) != 0
    return Log(pages, is_torn=is_cut or whole < len(pages), is_damaged=unread > has_header)


def _sums(content: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    one, two = sums
    for even, odd in struct.iter_unpack(f"{order}II", content):
        one = (one + even + two) & 0xFFFFFFFF
        two = (two + odd + one) & 0xFFFFFFFF
    return one, two


def _rebuild(folder: Path, damaged: StateDamaged, progress: dict[RunKey, Progress], *, may_forget: bool) -> None:
    """Rebuild the file from all intact rows of the damaged one."""
    building = folder / _BUILDING
    for side in ("-wal", ""):
        building.with_name(building.name + side).unlink(missing_ok=True)
    new = OutboxFile(building)
    try:
        unknown = _refill(new, folder / FILE_NAME, progress)
    finally:
        new.close()
    if unknown and not may_forget:
        raise replace(damaged, only_there=f"what was noted of the first events of {unknown[0]}")
    building.rename(folder / _REBUILT)


def _finish_rebuilding(folder: Path) -> Path | None:
    """Move a rebuilt file into place and return the new path of the damaged one, or None if there is none.

    This completes the work of a process that died in between.

    Raises:
        OSError: A file cannot be moved.
    """
    if not (folder / _REBUILT).exists():
        return None
    number = len(list(folder.glob(f"damaged-*-{FILE_NAME}"))) + (folder / FILE_NAME).exists()
    aside = folder / f"damaged-{number}-{FILE_NAME}"
    for side in ("-wal", ""):  # the file comes last: a log without its file would be applied to the new file
        if (path := folder / f"{FILE_NAME}{side}").exists():
            path.rename(f"{aside}{side}")
    (folder / _REBUILT).rename(folder / FILE_NAME)
    return aside


def _refill(new: OutboxFile, damaged: Path, progress: dict[RunKey, Progress]) -> list[RunKey]:
    """Fill a new file, and return the unfinished keys whose beginning is unknown."""
    whole, lost = dict[tuple[RunKey, int], Record](), dict[tuple[RunKey, int], Record]()
    group, size = list[Record](), 0
    for row in _rows(damaged, read_log(damaged.with_name(f"{damaged.name}-wal")).pages):
        if len(row) == _KEYS_COLUMNS and (pair := progress_of(row)) is not None:
            key, found = pair
            progress[key] = max(progress.get(key, found), found, key=lambda one: (one.is_closed, one.acknowledged_seq))
        elif len(row) == _BATCHES_COLUMNS and (record := record_of(row)) is not None:
            place = record.key, record.first_seq
            if record.is_lost:
                lost[place] = record
            elif place not in whole:
                whole[place] = record
                group.append(record)
                size += record.size
        if size >= _GROUP_BYTES:
            _insert(new, group)
            group, size = [], 0
    _insert(new, [*group, *(record for place, record in lost.items() if place not in whole)])
    new.update(progress, ())
    ended = {record.key for record in whole.values() if record.ends}
    # A row with lost lines was not acknowledged either.
    begun = {key for key, first_seq in (*whole, *lost) if first_seq == 1}
    return sorted({key for key, _ in whole} - ended - begun - progress.keys())


def _insert(new: OutboxFile, records: list[Record]) -> None:
    new.insert(records)
    for record in records:
        record.parts = []


def _rows(path: Path, log: list[tuple[int, bytes]]) -> Iterator[Row]:
    """Yield the rows of all tables in a file and its log, page by page."""
    newest = dict(log)
    with path.open("rb") as file:

        def read(number: int) -> bytes:
            if (page := newest.get(number)) is not None:
                return page
            file.seek((number - 1) * PAGE_BYTES)
            return file.read(PAGE_BYTES)

        pages = -(-path.stat().st_size // PAGE_BYTES)
        most_bytes = (pages + len(log)) * PAGE_BYTES
        for number in range(2, pages + 1):
            file.seek((number - 1) * PAGE_BYTES)
            yield from _rows_of(file.read(PAGE_BYTES), read, most_bytes)
        for _, page in log:
            yield from _rows_of(page, read, most_bytes)


def _rows_of(page: bytes, read: Callable[[int], bytes], most_bytes: int) -> Iterator[Row]:
    if len(page) < PAGE_BYTES or page[0] != _TABLE_LEAF:
        return
    count = min(int.from_bytes(page[3:5], "big"), (PAGE_BYTES - 8) // 2)
    for (at,) in struct.iter_unpack(">H", page[8 : 8 + 2 * count]):
        try:
            size, at = _varint(page, at)  # noqa: PLW2901
            number, at = _varint(page, at)  # noqa: PLW2901
            if size <= most_bytes:
                # The row's number precedes it and replaces an empty value.
                yield [number, *_values(_payload(page, at, size, read))[1:]]
        except (IndexError, ValueError, struct.error):
            continue  # this row is damaged; the others have their own offsets


def _payload(page: bytes, at: int, size: int, read: Callable[[int], bytes]) -> bytes:
    """Return the bytes of a row: the first part is in the page, the rest in a chain of overflow pages."""
    most, here = PAGE_BYTES - 35, size
    if size > most:
        least = (PAGE_BYTES - 12) * 32 // 255 - 23
        here = least + (size - least) % (PAGE_BYTES - 4)
        here = here if here <= most else least
    parts, missing = [page[at : at + here]], size - here
    following = page[at + here : at + here + 4]
    while missing > 0 and any(following):
        other = read(int.from_bytes(following, "big"))
        following, part = other[:4], other[4 : 4 + missing]
        parts.append(part)
        missing -= len(part) or missing
    return b"".join(parts)


def _values(payload: bytes) -> Row:
    """Return the values of a row, whose types precede them."""
    end, at = _varint(payload, 0)
    kinds = list[int]()
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values: Row = []
    for kind in kinds:
        size = (kind - 12) // 2 if kind >= 12 else _INTEGER_BYTES.get(kind, 0)
        content = payload[at : at + size]
        at += size
        if kind >= 12:
            values.append(content.decode(errors="replace") if kind % 2 else content)
        else:
            values.append(int.from_bytes(content, "big", signed=True) if size else {8: 0, 9: 1}.get(kind))
    return values


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(8):
        byte = content[at + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + index + 1
    return value << 8 | content[at + 8], at + 9
