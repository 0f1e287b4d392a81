"""Outboxes that were damaged while no worker was there."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ao_runner.outbox.outbox import Outbox
from ao_runner.run_events import RunKey
from tests.faults.worker.working import Home, until

PLACE = Path("outboxes/local/0")
OPTIONS = ("--outbox-quota", str(16 << 20), "--lease", "600")
"""The quota has room for writes behind the first checkpoint, which `is_large` waits for."""


FILE = "outbox.sqlite3"
MEBIBYTE = 1 << 20


def is_large(folder: Path) -> bool:
    """Return whether there is something in the file, and a later write to its log shows that the file is whole."""
    file, log = folder / FILE, folder / f"{FILE}-wal"
    if not file.exists() or file.stat().st_size < 2 * MEBIBYTE:
        return False
    return log.stat().st_mtime_ns > file.stat().st_mtime_ns


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


def flip_a_byte_of_the_log(folder: Path) -> None:
    log = folder / f"{FILE}-wal"
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0x10
    log.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "is_noticed"),
    [
        (tear_the_end, False),
        (flip_a_byte_of_the_log, False),
        (flip_a_byte, True),
        (clear_a_part, True),
    ],
    ids=["torn", "log", "flipped", "part"],
)
def test_the_runs_of_a_damaged_outbox_end_once_and_no_event_is_another(
    home: Home, damage: Callable[[Path], None], is_noticed: bool
) -> None:
    runs = home.submit(2, "100000000 0")
    with home.worker(*OPTIONS) as worker:
        until(lambda: all(home.flushed(run_id) > 5 for run_id in runs), "nothing was flushed")
        with home.locked():
            until(lambda: is_large(home.folder / PLACE), "the outbox does not grow")
            worker.killed()
    stored = {state.run.run_id: state.last_seq for state in home.states()}
    damage(home.folder / PLACE)
    kept = stored if is_noticed else home.durable()

    with home.worker(*OPTIONS) as heir:
        home.finish(heir)

    home.check(runs, kept)
    assert home.outcomes() == {"attempt_lost": 2}
    for run_id in runs:
        last_seq = home.events(run_id)[-1]["error"]["details"]["last_seq"]
        assert last_seq == stored[run_id] if is_noticed else last_seq >= stored[run_id]
    aside = home.folder / PLACE / f"damaged-1-{FILE}"
    assert (aside.exists(), heir.said("outbox was damaged")) == (is_noticed, is_noticed)
    assert any(str(aside) in str(entry.get("damage")) for entry in heir.log) == is_noticed


def test_a_worker_of_a_coordinator_that_does_not_know_its_runs_does_not_start_with_a_damaged_outbox(
    home: Home, tmp_path: Path
) -> None:
    place = home.folder / "outboxes" / "stdout" / "0"
    with Outbox(place) as outbox:
        outbox.append(RunKey("run_1", 1), 1, [b"{}"])
    (place / FILE).write_bytes(b"no database")

    for is_refused in (True, False):
        with home.worker("--coordinator", "stdout", "--until-idle", stdin=subprocess.DEVNULL) as worker:
            assert worker.left() == (2 if is_refused else 0), worker.other
        if is_refused:
            assert f"the outbox {place} is damaged: it begins with b'no database'" in worker.other[-1]
            assert f"Delete {place / 'lock'} and start again" in worker.other[-1]
            (place / "lock").unlink()
        assert (place / f"damaged-1-{FILE}").exists() is not is_refused
    assert worker.said("outbox was damaged") == 1
