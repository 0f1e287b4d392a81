"""Outboxes that were damaged while no worker was there."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults.worker.working import Home, until

pytestmark = pytest.mark.slow

PLACE = Path("outboxes/local/0")
OPTIONS = ("--outbox-quota", str(4 << 20), "--lease", "600")


def segments(folder: Path) -> list[Path]:
    """Return those that hold enough to be damaged."""
    return [path for path in sorted(folder.glob("*.jsonl")) if path.stat().st_size > 50_000]


def go_on_behind_the_damage(folder: Path, runs: list[str]) -> bool:
    """Return whether every run has events behind the segment that is damaged, the second."""
    behind = b"".join(path.read_bytes() for path in segments(folder)[2:])
    return all(run_id.encode() in behind for run_id in runs)


def tear_the_end(folder: Path) -> None:
    newest = segments(folder)[-1]
    newest.write_bytes(newest.read_bytes()[:-10])


def flip_a_byte(folder: Path) -> None:
    segment = segments(folder)[1]
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0x10
    segment.write_bytes(data)


def delete_a_segment(folder: Path) -> None:
    segments(folder)[1].unlink()


def delete_the_state(folder: Path) -> None:
    for path in folder.glob("state.sqlite3*"):
        path.unlink()


@pytest.mark.parametrize(
    ("damage", "is_whole"),
    [(tear_the_end, True), (flip_a_byte, False), (delete_a_segment, False), (delete_the_state, True)],
    ids=["torn", "flipped", "segment", "state"],
)
def test_what_is_whole_of_a_damaged_outbox_is_delivered(
    home: Home, damage: Callable[[Path], None], is_whole: bool
) -> None:
    runs = home.submit(2, "100000 0")
    with home.worker(*OPTIONS) as worker:
        until(lambda: all(home.flushed(run_id) > 5 for run_id in runs), "nothing was flushed")
        with home.locked():
            until(lambda: go_on_behind_the_damage(home.folder / PLACE, runs), "the outbox does not grow")
            worker.killed()
    durable = home.durable()
    damage(home.folder / PLACE)

    with home.worker(*OPTIONS) as heir:
        home.finish(heir)

    assert home.outcomes() == {"attempt_lost": 2}
    assert damage is delete_the_state or heir.said("outbox was damaged") > 0
    gaps = 0
    for run_id in runs:
        seqs = [event["seq"] for event in home.events(run_id)]
        assert all(before < after for before, after in pairwise(seqs))
        gaps += seqs != list(range(1, len(seqs) + 1))
        assert home.events(run_id)[-1]["error"]["details"] == {"last_seq": seqs[-1] - 1}
        assert damage is tear_the_end or seqs[-1] > durable[run_id]
    assert (gaps == 0) is is_whole
