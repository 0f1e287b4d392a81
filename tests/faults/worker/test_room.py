"""No room for events: executors wait, nothing is lost, and all goes on when there is room."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.worker.working import Home, until

pytestmark = pytest.mark.slow

MANY = 4000
IN_A_SMALL_DISK = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")


def test_an_outbox_that_has_its_quota_makes_executors_wait_and_delivers_all_in_the_end(home: Home) -> None:
    runs = home.submit(2, f"{MANY} 0")
    with home.worker("--outbox-quota", str(1 << 20), "--lease", "600") as worker:
        until(lambda: all(home.flushed(run_id) > 3 for run_id in runs), "nothing was flushed")
        with home.locked():
            worker.heard("taking no more runs")
            assert any("room in the outbox" in entry.get("lacking", "") for entry in worker.log)
            assert min(home.flushed(run_id) for run_id in runs) < MANY
        runs.append(home.submit_to("ses_late", "1 0"))
        home.finish(worker)
    home.check(runs)
    assert home.outcomes() == {"completed": 3}
    assert [len(home.events(run_id)) for run_id in runs] == [MANY + 3, MANY + 3, 4]


def test_a_worker_on_a_full_disk_loses_nothing_and_goes_on_when_there_is_room(home: Home, tmp_path: Path) -> None:
    if shutil.which(IN_A_SMALL_DISK[0]) is None:
        pytest.skip(f"{IN_A_SMALL_DISK[0]}, which makes a disk for one test, is not there")
    runs = home.submit(2, "400 0.001")
    disk = tmp_path / "disk"
    disk.mkdir()
    program = 'mount -t tmpfs -o size=4m none "$1" && exec "$0" -m tests.faults.worker.small_disk "$1" "$2"'
    done = subprocess.run(
        [*IN_A_SMALL_DISK, program, sys.executable, str(disk), str(home.folder)],
        cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if any(line.startswith(("unshare: ", "mount: ")) for line in done.stderr.splitlines()):
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told[:2] == ["outbox is not writable; executors wait", "outbox is writable again"]
    home.check(runs)
    assert home.outcomes() == {"completed": 2}
    assert [len(home.events(run_id)) for run_id in runs] == [403, 403]
