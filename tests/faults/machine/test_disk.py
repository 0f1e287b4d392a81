"""A disk that takes no more while a run is kept on it."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.mounting import IN_A_MOUNT_OF_ITS_OWN, require_mounts
from tests.process.lifeline.leftovers import processes_in
from tests.process.runner.cli.calling import Ao, Called, miniature

MOUNT = 'mount -t tmpfs -o size=1m none "$1"'
SECONDS = 60


def run_on_a_small_disk(folder: Path, name: str, *options: str) -> Called:
    """Call `ao run` with its home on a disk of a megabyte."""
    ao, disk = Ao(folder), folder / "disk"
    for made in (disk, folder / "project"):
        made.mkdir()
    require_mounts()
    ao.write("agent.yaml", "name: agent\n")
    ao.write("parameters.json", '{"prompt": "x", "events": 200000}')
    run = ["run", "agent.yaml", "--params", "parameters.json", "--executor", miniature(name), *options]
    argv = ao.argv(*run, "--project-dir", "project")
    done = subprocess.run(
        [*IN_A_MOUNT_OF_ITS_OWN, f'{MOUNT} && shift && exec "$@"', "sh", str(disk), *argv],
        cwd=folder,
        env=ao.environment() | {"AO_HOME": str(disk / "home")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return Called(done.returncode, done.stdout, done.stderr)


def test_a_run_that_cannot_be_kept_any_more_is_ended(tmp_path: Path) -> None:
    called = run_on_a_small_disk(tmp_path, "floods_events", "--json")

    assert called.exit_code != 0
    assert "disk is full" in called.stderr
    assert processes_in(tmp_path / "project", 2.0) == []


def test_a_person_reads_a_sentence_about_a_full_disk(tmp_path: Path) -> None:
    called = run_on_a_small_disk(tmp_path, "floods_events")

    assert "Traceback" not in called.stderr
    assert f"cannot write to {tmp_path / 'disk' / 'home' / 'ao.sqlite3'}: database or disk is full" in called.stderr


@pytest.mark.parametrize(
    ("options", "fill", "outcome"),
    [
        ("size=64k", 'dd if=/dev/zero of="$1/ballast" bs=4096 2>&-', "completed"),
        ("size=64k,nr_inodes=1", ":", "resource_exhausted"),
    ],
    ids=["no-blocks", "no-inodes"],
)
def test_a_full_disk_for_temporary_files_holds_up_no_worker(
    options: str, fill: str, outcome: str, tmp_path: Path
) -> None:
    ao, disk = Ao(tmp_path), tmp_path / "disk"
    disk.mkdir()
    require_mounts()
    ao.write("agent.yaml", "name: agent\n")
    for prompt in ("one", "two", "three"):
        assert ao("submit", "agent.yaml", "-p", prompt, "--profile", "echo").exit_code == 0

    full = f'mount -t tmpfs -o {options} none "$1"; {fill}; shift && exec "$@"'
    worker = ao.argv("worker", "--until-idle", "--profile", "echo")
    done = subprocess.run(
        [*IN_A_MOUNT_OF_ITS_OWN, full, "sh", str(disk), *worker],
        cwd=tmp_path,
        env=ao.environment() | {"TMPDIR": str(disk)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    ended = [json.loads(line) for line in done.stderr.splitlines() if '"run ended"' in line]
    assert [entry["error_type"] or entry["outcome"] for entry in ended] == [outcome] * 3
