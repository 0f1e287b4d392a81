"""No room for events: executors wait, nothing is lost, and all goes on when there is room."""

import json
import subprocess
import sys
from pathlib import Path

from tests.faults.worker.working import Home, until
from tests.mounting import IN_A_MOUNT_OF_ITS_OWN, require_mounts

MANY = 4000


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
    require_mounts()
    runs = home.submit(2, "400 0.001")
    disk = tmp_path / "disk"
    disk.mkdir()
    program = 'mount -t tmpfs -o size=4m none "$1" && exec "$0" -m tests.faults.worker.small_disk "$1" "$2"'
    done = subprocess.run(
        [*IN_A_MOUNT_OF_ITS_OWN, program, sys.executable, str(disk), str(home.folder)],
        cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told[:2] == ["outbox is not writable; executors wait", "outbox is writable again"]
    home.check(runs)
    assert home.outcomes() == {"completed": 2}
    assert [len(home.events(run_id)) for run_id in runs] == [403, 403]
