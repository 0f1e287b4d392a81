"""Outboxes that were damaged while no worker was there."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults.worker.working import Home, until

PLACE = Path("outboxes/local/0")
OPTIONS = ("--outbox-quota", str(4 << 20), "--lease", "600")


FILE = "outbox.sqlite3"
MEBIBYTE = 1 << 20


def is_large(folder: Path) -> bool:
    """Return whether there is something in the file, and not only in its log."""
    return (folder / FILE).exists() and (folder / FILE).stat().st_size > 2 * MEBIBYTE


def tear_the_end(folder: Path) -> None:
    log = folder / f"{FILE}-wal"
    log.write_bytes(log.read_bytes()[:-10])


def flip_a_byte(folder: Path) -> None:
    """Flip one in the lines of some events."""
    data = bytearray((folder / FILE).read_bytes())
    data[data.index(b'"event_type"', MEBIBYTE)] ^= 0x10
    (folder / FILE).write_bytes(data)


def clear_a_part(folder: Path) -> None:
    with (folder / FILE).open("r+b") as file:
        file.seek(MEBIBYTE // 2)
        file.write(bytes(MEBIBYTE))


def delete_the_keys(folder: Path) -> None:
    with closing(sqlite3.connect(folder / FILE)) as connection, connection:
        connection.execute("DELETE FROM keys")


@pytest.mark.parametrize(
    ("damage", "is_whole"),
    [(tear_the_end, True), (flip_a_byte, False), (clear_a_part, False), (delete_the_keys, True)],
    ids=["torn", "flipped", "segment", "state"],
)
def test_what_is_whole_of_a_damaged_outbox_is_delivered(
    home: Home, damage: Callable[[Path], None], is_whole: bool
) -> None:
    runs = home.submit(2, "100000 0")
    with home.worker(*OPTIONS) as worker:
        until(lambda: all(home.flushed(run_id) > 5 for run_id in runs), "nothing was flushed")
        with home.locked():
            until(lambda: is_large(home.folder / PLACE), "the outbox does not grow")
            worker.killed()
    durable = home.durable()
    damage(home.folder / PLACE)

    with home.worker(*OPTIONS) as heir:
        home.finish(heir)

    assert home.outcomes() == {"attempt_lost": 2}
    assert damage is delete_the_keys or heir.said("outbox was damaged") > 0
    gaps = 0
    for run_id in runs:
        seqs = [event["seq"] for event in home.events(run_id)]
        assert all(before < after for before, after in pairwise(seqs))
        gaps += seqs != list(range(1, len(seqs) + 1))
        assert home.events(run_id)[-1]["error"]["details"] == {"last_seq": seqs[-1] - 1}
        assert damage is tear_the_end or seqs[-1] > durable[run_id]
    assert (gaps == 0) is is_whole
