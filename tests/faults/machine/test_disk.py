"""A disk that takes no more while a run is kept on it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lifeline.leftovers import processes_in
from tests.runner.cli.calling import Ao, Called, miniature

IN_A_MOUNT_OF_ITS_OWN = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
MOUNT = 'mount -t tmpfs -o size=1m none "$1"'
SECONDS = 60


def can_mount(folder: Path) -> bool:
    if shutil.which(IN_A_MOUNT_OF_ITS_OWN[0]) is None:
        return False
    attempt = [*IN_A_MOUNT_OF_ITS_OWN, MOUNT, "sh", str(folder)]
    return subprocess.run(attempt, check=False, capture_output=True, timeout=SECONDS).returncode == 0


def run_on_a_small_disk(folder: Path, name: str, *options: str) -> Called:
    """Call `ao run` with its home on a disk of a megabyte."""
    ao, disk = Ao(folder), folder / "disk"
    for made in (disk, folder / "project"):
        made.mkdir()
    if not can_mount(disk):
        pytest.skip("this system does not let a test mount a small disk")
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
