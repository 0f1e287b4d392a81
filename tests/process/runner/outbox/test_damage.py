"""Whatever happens to the bytes of the file and its log: what is whole comes back once, in order, and nothing else."""

import sqlite3
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_runner.outbox import Damage, Lost, Outbox, OutboxOptions
from ao_runner.outbox.errors import StateDamaged
from ao_runner.run_events import RunKey
from tests.process.runner.outbox.filling import OTHER, RUN, broken, copied, delivered, fresh_folder, keep, numbered

KNOWING: Final = OutboxOptions(has_a_knowing_coordinator=True)
FRAME: Final = 24 + 4096


def three_records(folder: Path) -> Path:
    """RUN 1-3, RUN 4-6 and OTHER 1-2, all in the file and none in the log."""
    with Outbox(folder) as outbox:
        keep(outbox, RUN, 1, 3)
        keep(outbox, RUN, 4, 6)
        keep(outbox, OTHER, 1, 2)
    return folder / "outbox.sqlite3"


def three_in_the_log(folder: Path) -> Path:
    """The same after a crash: all in the log."""
    with Outbox(folder / "living") as outbox:
        keep(outbox, RUN, 1, 3)
        keep(outbox, RUN, 4, 6)
        keep(outbox, OTHER, 1, 2)
        return copied(folder / "living", folder / "dead") / "outbox.sqlite3-wal"


def test_lines_that_are_damaged_leave_a_gap_that_is_told_and_whose_numbers_are_not_used_again(tmp_path: Path) -> None:
    path = three_records(tmp_path)
    broken(path, b'{"seq":5}', b'{"seq":9}')

    with Outbox(tmp_path) as outbox:
        assert outbox.damages == (Damage(tmp_path / "damaged-1-outbox.sqlite3", (Lost(RUN, 4, 6),)),)
        keep(outbox, RUN, 7, 7)
        assert delivered(outbox, RUN) == numbered(1, 3) | numbered(7, 7)
        assert outbox.next_batch(RUN, max_events=9) == outbox.next_batch(RUN, max_events=3)
        assert delivered(outbox, OTHER) == numbered(1, 2)
    with Outbox(tmp_path) as outbox:
        assert outbox.damages == (Damage(path, (Lost(RUN, 4, 6),)),)


def test_a_row_that_is_missing_is_told_by_the_gap(tmp_path: Path) -> None:
    path = three_records(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM batches WHERE first_seq = 1 AND run_id = 'run_1'")
    connection.close()

    with Outbox(tmp_path) as outbox:
        assert outbox.damages == (Damage(path, (Lost(RUN, 1, 3),)),)
        assert delivered(outbox, RUN) == numbered(4, 6)


def test_a_damaged_page_that_says_where_the_others_are_takes_none_of_them_along(tmp_path: Path) -> None:
    with Outbox(tmp_path) as outbox:
        for seq in range(1, 101):
            outbox.append(RUN, seq, [b"x" * 1000])
            outbox.sync()
    content = bytearray((tmp_path / "outbox.sqlite3").read_bytes())
    root = next(at for at in range(4096, len(content), 4096) if content[at] == 5)
    content[root : root + 4096] = bytes(4096)
    (tmp_path / "outbox.sqlite3").write_bytes(content)

    with Outbox(tmp_path, KNOWING) as outbox:
        assert [damage.lost for damage in outbox.damages] == [()]
        assert len(delivered(outbox, RUN)) == 100


def test_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    path = three_records(tmp_path)
    path.unlink()

    with Outbox(tmp_path) as outbox:
        assert (outbox.damages, outbox.open_keys()) == ((Damage(path),), [])


def test_a_torn_end_of_the_log_is_cut_and_its_numbers_are_used_again(tmp_path: Path) -> None:
    log = three_in_the_log(tmp_path)
    log.write_bytes(log.read_bytes()[:-10])

    with Outbox(log.parent) as outbox:
        assert outbox.damages == (Damage(log, was_cut=True),)
        assert delivered(outbox, RUN) == numbered(1, 6)
        keep(outbox, OTHER, 1, 1)
        assert delivered(outbox, OTHER) == numbered(1, 1)
    with Outbox(log.parent) as outbox:
        assert outbox.damages == ()


@pytest.mark.parametrize("at", [20, 50, -2 * FRAME - 5], ids=["header", "frame header", "page"])
def test_what_stands_behind_damage_in_the_log_is_there(tmp_path: Path, at: int) -> None:
    log = three_in_the_log(tmp_path)
    content = bytearray(log.read_bytes())
    content[at] ^= 1
    log.write_bytes(content)

    with Outbox(log.parent, KNOWING) as outbox:
        assert [damage.path.name for damage in outbox.damages] == ["damaged-1-outbox.sqlite3"]
        assert delivered(outbox, OTHER) == numbered(1, 2)
        assert delivered(outbox, RUN) == numbered(1, 6)
    assert (log.parent / "damaged-1-outbox.sqlite3-wal").read_bytes() == content


LINE = st.binary(max_size=12).map(lambda line: line.replace(b"\n", b""))
APPENDED = st.lists(
    st.tuples(st.integers(0, 1), st.lists(LINE, min_size=1, max_size=4), st.sampled_from([1, 1, 900])),
    min_size=1,
    max_size=9,
)


def written(folder: Path, appended: list[tuple[int, list[bytes], int]]) -> dict[RunKey, dict[int, bytes]]:
    original: dict[RunKey, dict[int, bytes]] = {RUN: {}, OTHER: {}}
    with Outbox(folder / "living") as outbox:
        for which, short, times in appended:
            key, lines = (RUN, OTHER)[which], [line * times for line in short]
            first_seq = len(original[key]) + 1
            outbox.append(key, first_seq, lines)
            outbox.sync()
            original[key].update(zip(range(first_seq, first_seq + len(lines)), lines, strict=True))
        copied(folder / "living", folder / "dead")
    (folder / "living" / "lock").write_bytes(b"in use\n")
    return original


def opened(folder: Path, *, may_be_refused: bool) -> Outbox:
    """Open an outbox; where it is refused because only a damaged page had a note, do what the message says."""
    try:
        return Outbox(folder, KNOWING)
    except StateDamaged as refused:
        reason = str(refused)
    assert may_be_refused
    assert f"Delete {folder / 'lock'} and start again" in reason
    (folder / "lock").unlink()
    return Outbox(folder, KNOWING)


@given(st.data(), APPENDED, st.sampled_from(["dead", "living"]))
def test_every_undamaged_record_comes_back_once_in_order_and_nothing_else(
    data: st.DataObject, appended: list[tuple[int, list[bytes], int]], which: str
) -> None:
    with fresh_folder() as whole:
        original = written(whole, appended)
        folder = whole / which
        victim = folder / ("outbox.sqlite3-wal" if which == "dead" else "outbox.sqlite3")
        content = bytearray(victim.read_bytes())
        begin = data.draw(st.integers(0, len(content) - 1))
        size = data.draw(st.sampled_from([1, 40, 4096]))
        content[begin : begin + size] = data.draw(st.binary(min_size=1, max_size=9)) * size
        if which == "living":
            content[60:64] = victim.read_bytes()[60:64]  # its layout could be that of a newer version
        victim.write_bytes(content[: victim.stat().st_size])

        for _ in range(2):
            with opened(folder, may_be_refused=which == "living") as outbox:
                told = [each for damage in outbox.damages for each in damage.lost]
                for key, lines in original.items():
                    found = delivered(outbox, key)
                    assert found.items() <= lines.items()
                    lost = [seq for each in told if each.key == key for seq in range(each.from_seq, each.to_seq + 1)]
                    assert sorted([*lost, *found]) == list(range(1, max([*lost, *found], default=0) + 1))
