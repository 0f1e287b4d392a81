"""Real processes that are killed, and real disks that take no more."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ao_runner.outbox.outbox import Outbox
from ao_runner.run_events import RunKey
from tests.mounting import IN_A_MOUNT_OF_ITS_OWN, require_mounts
from tests.process.runner.outbox.filling import delivered
from tests.process.runner.outbox.fills_a_disk import line

HERE = Path(__file__).parent
MOUNT = 'mount -t tmpfs -o size=12m none "$1"'


@pytest.mark.parametrize("reports", [1, 40, 300])
def test_what_was_reported_durable_outlives_a_killed_process(tmp_path: Path, reports: int) -> None:
    told = dict.fromkeys("abc", 0)
    for _ in range(2):
        script = [sys.executable, str(HERE / "appends_until_killed.py"), str(tmp_path)]
        with subprocess.Popen(script, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for number, report in enumerate(process.stdout, 1):
                if number == reports:
                    process.kill()
                if report.endswith("\n"):
                    run_id, seq = report.split()
                    told[run_id] = int(seq)

        with Outbox(tmp_path) as outbox:
            assert outbox.damage is None
            for state in outbox.open_keys():
                found = delivered(outbox, state.key)
                assert list(found) == list(range(state.acknowledged_seq + 1, state.durable_seq + 1))
                assert state.durable_seq >= told[state.key.run_id] > 0
                for number, text in found.items():
                    assert text.startswith(f"{state.key.run_id} {number}".encode())


def filled(folder: Path, argv: Sequence[str]) -> dict[str, Any]:
    report = json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE, timeout=60).stdout)
    assert isinstance(report, dict)
    assert f"cannot write to the outbox {folder}" in report["error"]
    assert report["durable"] < report["seq"]
    return report


def test_a_limit_that_stops_a_write_halfway_loses_nothing(tmp_path: Path) -> None:
    report = filled(tmp_path, [sys.executable, str(HERE / "fills_a_disk.py"), str(tmp_path), "limit"])

    with Outbox(tmp_path) as outbox:
        assert outbox.damage is None
        assert delivered(outbox, RunKey("delivered", 1)) == {seq: line(seq) for seq in range(1, report["seq"] + 1)}
        assert delivered(outbox, RunKey("waiting", 1)) == {1: line(1), 2: line(2)}


def test_a_full_disk_is_emptied_by_acknowledgements(tmp_path: Path) -> None:
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    require_mounts()
    commands = f'{MOUNT} && "$3" "$4" "$1" disk && cp -r "$1" "$2"'
    argv = (str(disk), str(kept), sys.executable, str(HERE / "fills_a_disk.py"))
    report = filled(disk, [*IN_A_MOUNT_OF_ITS_OWN, commands, "sh", *argv])

    with Outbox(kept) as outbox:
        assert outbox.damage is None
        rest = {seq: line(seq) for seq in range(report["durable"] + 1, report["seq"] + 1)}
        assert delivered(outbox, RunKey("delivered", 1)) == rest
        assert delivered(outbox, RunKey("waiting", 1)) == {1: line(1), 2: line(2)}
