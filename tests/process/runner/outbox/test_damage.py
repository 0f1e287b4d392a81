"""Whatever happens to the bytes of the file and its log: an event comes back as it was written, or not at all."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_runner.outbox.outbox import Outbox, OutboxOptions
from ao_runner.outbox.outbox_errors import OutboxError, StateDamaged
from ao_runner.run_events import RunKey
from tests.process.runner.outbox.filling import OTHER, RUN, broken, copied, delivered, fresh_folder, keep, numbered

KNOWING: Final = OutboxOptions(has_a_knowing_coordinator=True)
ENDED: Final = RunKey("run_ended", 1)
NEXT: Final = RunKey("run_next", 1)
FRAME: Final = 24 + 4096


def filled(folder: Path) -> Path:
    """Leave 4 to 9 of one key, whose end is there, all three of another, which has none, and a key that is closed."""
    with Outbox(folder) as outbox:
        keep(outbox, ENDED, 1, 1, ends=True)
        outbox.acknowledge(ENDED, 1)
        for first_seq in (1, 4, 7):
            keep(outbox, RUN, first_seq, first_seq + 2, ends=first_seq == 7)
        keep(outbox, OTHER, 1, 3)
        outbox.acknowledge(RUN, 3, "what was noted")
    return folder / "outbox.sqlite3"


def three_in_the_log(folder: Path) -> Path:
    """Leave RUN 1-3, RUN 4-6 and OTHER 1-2 after a crash: all in the log."""
    with Outbox(folder / "living") as outbox:
        keep(outbox, RUN, 1, 3)
        keep(outbox, RUN, 4, 6)
        keep(outbox, OTHER, 1, 2)
        return copied(folder / "living", folder / "dead") / "outbox.sqlite3-wal"


def changed_by(statement: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(statement)

    return change


def other_bytes(old: bytes, new: bytes) -> Callable[[Path], None]:
    return lambda path: broken(path, old, new)


def other_first_page(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 3996 + path.read_bytes()[4096:])


def other_name_in_the_index(path: Path) -> None:
    content = path.read_bytes()
    at = next(at for at in range(4096, len(content), 4096) if content[at] == 10)
    path.write_bytes(content[:at] + content[at : at + 4096].replace(b"run_ended", b"run_endEd") + content[at + 4096 :])


DAMAGES: Final[dict[str, Callable[[Path], None]]] = {
    "no header": other_bytes(b"SQLite format 3", b"no database at "),
    "empty": lambda path: os.truncate(path, 0),
    "cut": lambda path: os.truncate(path, 5000),
    "missing": lambda path: path.unlink(),
    "first page": other_first_page,
    "other schema": changed_by("UPDATE sqlite_schema SET sql = replace(sql, 'lines BLOB', 'lines,BLOB')"),
    "a message about the schema that is not UTF-8": changed_by(
        "UPDATE sqlite_schema SET sql = CAST(replace(CAST(sql AS BLOB), CAST('TEXT' AS BLOB), x'54ff5854') AS TEXT)"
    ),
    "other layout": changed_by("PRAGMA user_version = 7"),
    "lines": other_bytes(b'{"seq":5}', b'{"seq":9}'),
    "checksum of lines": changed_by("UPDATE batches SET lines_crc32 = lines_crc32 + 1 WHERE first_seq = 4"),
    "row of a batch": changed_by("UPDATE batches SET first_seq = 5 WHERE first_seq = 4"),
    "row that is missing": changed_by("DELETE FROM batches WHERE first_seq = 4"),
    "rows of keys that are missing": changed_by("DELETE FROM keys"),
    "note": other_bytes(b"what was noted", b"what was nOted"),
    "open key that looks closed": changed_by("UPDATE keys SET is_closed = 1"),
    "closed key that looks open": changed_by("UPDATE keys SET is_closed = 0"),
    "index": other_name_in_the_index,
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_set_aside_whole_and_a_new_one_begins(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    damage(path := filled(tmp_path))
    content = path.read_bytes() if path.exists() else None

    with Outbox(tmp_path, KNOWING) as outbox:
        assert outbox.damage is not None
        aside = tmp_path / "damaged-1-outbox.sqlite3"
        assert f"Kept of it: {'nothing' if content is None else aside}. A new one began" in outbox.damage
        assert content is None or aside.read_bytes() == content
        assert outbox.open_keys() == []
        keep(outbox, NEXT, 1, 2)
        crashed = copied(tmp_path, tmp_path / "crashed")
    for folder in (tmp_path, crashed):
        with Outbox(folder) as outbox:
            assert outbox.damage is None
            assert [state.key for state in outbox.open_keys()] == [NEXT]
            assert delivered(outbox, NEXT) == numbered(1, 2)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_where_only_the_file_knew_of_runs_the_outbox_does_not_open_and_says_what_to_do(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    damage(path := filled(tmp_path))
    content = path.read_bytes() if path.exists() else b""
    for _ in range(2):
        with pytest.raises(StateDamaged, match=r"is damaged: .* Delete .*/lock and start again: a new one begins"):
            Outbox(tmp_path)
        assert (path.read_bytes() if path.exists() else b"") == content
    (tmp_path / "lock").unlink()

    with Outbox(tmp_path) as outbox:
        assert outbox.open_keys() == []
    assert not content or (tmp_path / "damaged-1-outbox.sqlite3").read_bytes() == content


def test_where_nothing_was_left_a_damaged_file_is_replaced_for_any_coordinator(tmp_path: Path) -> None:
    with Outbox(tmp_path) as outbox:
        keep(outbox, RUN, 1, 3, ends=True)
        outbox.acknowledge(RUN, 3)
    DAMAGES["no header"](tmp_path / "outbox.sqlite3")

    with Outbox(tmp_path) as outbox:
        assert outbox.damage is not None
        assert outbox.open_keys() == []


def test_an_outbox_whose_lock_was_deleted_is_known_to_hold_events_after_the_next_crash(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "lock").unlink()
    with Outbox(tmp_path) as outbox:
        assert {state.key for state in outbox.open_keys()} == {RUN, OTHER}
        crashed = copied(tmp_path, tmp_path / "crashed")
    DAMAGES["no header"](crashed / "outbox.sqlite3")

    with pytest.raises(StateDamaged):
        Outbox(crashed)


def test_a_damaged_file_takes_the_place_of_no_other(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        (filled(tmp_path)).write_bytes(b"damaged %d" % number)
        with Outbox(tmp_path, KNOWING) as outbox:
            assert outbox.damage is not None
        if number == 2:
            (tmp_path / "damaged-1-outbox.sqlite3").unlink()

    assert sorted(path.read_bytes() for path in tmp_path.glob("damaged-*")) == [b"damaged 2", b"damaged 3"]


@pytest.mark.parametrize("moved", [["outbox.sqlite3"], ["outbox.sqlite3", "outbox.sqlite3-wal"]], ids=["one", "both"])
def test_a_process_that_dies_while_it_sets_a_damaged_file_aside_loses_no_damage(
    tmp_path: Path, moved: list[str]
) -> None:
    log = three_in_the_log(tmp_path)
    content = log.read_bytes()
    for name in moved:
        (log.parent / name).rename(log.parent / f"damaged-1-{name}")

    with Outbox(log.parent, KNOWING) as outbox:
        assert outbox.damage is not None
        assert outbox.open_keys() == []
        keep(outbox, NEXT, 1, 2)
        assert delivered(outbox, NEXT) == numbered(1, 2)
    assert [path.read_bytes() for path in log.parent.glob("damaged-*-wal")] == [content]


def test_a_torn_end_of_the_log_is_as_if_never_written_and_its_numbers_are_used_again(tmp_path: Path) -> None:
    log = three_in_the_log(tmp_path)
    log.write_bytes(log.read_bytes()[:-10])

    with Outbox(log.parent) as outbox:
        assert outbox.damage is None
        assert delivered(outbox, RUN) == numbered(1, 6)
        keep(outbox, OTHER, 1, 1)
        assert delivered(outbox, OTHER) == numbered(1, 1)


def test_a_log_with_damage_in_its_middle_ends_there(tmp_path: Path) -> None:
    log = three_in_the_log(tmp_path)
    content = bytearray(log.read_bytes())
    content[-2 * FRAME - 5] ^= 1
    log.write_bytes(content)

    with Outbox(log.parent) as outbox:
        found = delivered(outbox, RUN)
        assert found.items() <= numbered(1, 6).items()
        assert list(found) == list(range(1, len(found) + 1))
        assert delivered(outbox, OTHER) == {}


@pytest.mark.parametrize("at", [20, 50], ids=["header", "frame header"])
def test_a_log_that_cannot_be_read_at_all_is_damage_and_is_kept(tmp_path: Path, at: int) -> None:
    log = three_in_the_log(tmp_path)
    content = bytearray(log.read_bytes())
    content[at] ^= 1
    log.write_bytes(content)
    with pytest.raises(StateDamaged):
        Outbox(log.parent)

    with Outbox(log.parent, KNOWING) as outbox:
        assert outbox.damage is not None
        assert outbox.open_keys() == []
    assert (log.parent / "damaged-1-outbox.sqlite3-wal").read_bytes() == content


LINE = st.binary(max_size=12).map(lambda line: line.replace(b"\n", b""))
APPENDED = st.lists(
    st.tuples(st.integers(0, 1), st.lists(LINE, min_size=1, max_size=4), st.sampled_from([1, 1, 900])),
    min_size=1,
    max_size=9,
)


def written(folder: Path, appended: list[tuple[int, list[bytes], int]]) -> dict[RunKey, dict[int, bytes]]:
    """Leave two outboxes: `living` is without a log, and `dead` has everything in it."""
    original: dict[RunKey, dict[int, bytes]] = {RUN: {}, OTHER: {}}
    with Outbox(folder / "living") as outbox:
        keep(outbox, ENDED, 1, 1, ends=True)
        outbox.acknowledge(ENDED, 1)
        for which, short, times in appended:
            key, lines = (RUN, OTHER)[which], [line * times for line in short]
            first_seq = len(original[key]) + 1
            outbox.append(key, first_seq, lines)
            outbox.sync()
            outbox.flush_state()
            original[key].update(zip(range(first_seq, first_seq + len(lines)), lines, strict=True))
        copied(folder / "living", folder / "dead")
    return original


@given(st.data(), APPENDED, st.sampled_from(["living", "dead"]), st.booleans())
def test_whatever_is_damaged_an_event_is_as_it_was_written_and_no_other_error_is_raised(
    data: st.DataObject, appended: list[tuple[int, list[bytes], int]], which: str, knows: bool
) -> None:
    with fresh_folder() as whole:
        original = written(whole, appended)
        folder = whole / which
        victim = data.draw(st.sampled_from(sorted(folder.glob("outbox.sqlite3*"))))
        content = bytearray(victim.read_bytes())
        begin = data.draw(st.integers(0, len(content) - 1))
        size = data.draw(st.sampled_from([1, 40, 4096, len(content)]))
        content[begin : begin + size] = (data.draw(st.binary(max_size=9)) * size)[:size]
        victim.write_bytes(content)
        try:
            outbox = Outbox(folder, OutboxOptions(cache_bytes=0, has_a_knowing_coordinator=knows))
        except OutboxError:
            return
        with outbox:
            states = {state.key: state for state in outbox.open_keys()}
            for key, lines in original.items():
                found = delivered(outbox, key)
                assert found.items() <= lines.items()
                assert list(found) == list(range(1, len(found) + 1))
                assert key not in states or states[key].durable_seq == len(found)
            assert (
                which == "dead"
                or outbox.damage is not None
                or states.keys() == {key for key in original if original[key]}
            )
            assert outbox.damage is None or (knows and not states)
            assert which == "dead" or ENDED not in states
            keep(outbox, NEXT, 1, 2)
            crashed = copied(folder, whole / "crashed")
        with Outbox(crashed) as outbox:
            assert delivered(outbox, NEXT) == numbered(1, 2)
