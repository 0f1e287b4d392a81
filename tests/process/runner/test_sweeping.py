"""What dead runners have left is known again and ended; what is another's is left alone."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ao_runner.processes.cleanup_journal import (
    FOLDER_NAME,
    CleanupJournal,
    LeftBehind,
    Scratch,
    began_at,
    find_left_behind,
    own_cleanup_journal,
    sweep_left_behind,
)
from ao_runner.store.ownership import is_alive, own_runs

SECONDS = 100.0


@contextmanager
def group(script: str = "exec sleep 1000", **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process in a group of its own; its stdout ends when nobody of the group is left."""
    with subprocess.Popen(
        ["/bin/sh", "-c", f"echo; {script}"],
        stdout=subprocess.PIPE, start_new_session=True, env={"PATH": os.environ["PATH"], **variables},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        try:
            yield process
        finally:
            if process.returncode is None:
                os.killpg(process.pid, 9)


def of_a_dead_owner(home: Path) -> CleanupJournal:
    folder = home / FOLDER_NAME / "dead"
    folder.mkdir(parents=True)
    return CleanupJournal(folder)


def test_a_group_of_a_dead_owner_is_killed_and_its_folder_removed(tmp_path: Path) -> None:
    scratch = Scratch.make({"TMPDIR": str(tmp_path)}, of_a_dead_owner(tmp_path))
    (scratch.folder / "file").touch()
    with group() as process:
        scratch.note_group(process.pid)
        left = LeftBehind((process.pid,), (scratch.folder,))

        assert find_left_behind(tmp_path) == left
        assert sweep_left_behind(tmp_path, print) == left
        assert process.wait(SECONDS) == -9
    assert not scratch.folder.exists()
    assert list((tmp_path / FOLDER_NAME).iterdir()) == []
    assert not find_left_behind(tmp_path)


def test_who_asks_whether_an_owner_lives_changes_nothing_and_the_next_start_forgets_it(tmp_path: Path) -> None:
    of_a_dead_owner(tmp_path)
    owner = tmp_path / "owners" / "dead"
    owner.parent.mkdir()
    owner.touch()

    assert not is_alive(tmp_path, "dead")
    assert not find_left_behind(tmp_path)
    assert owner.exists()
    sweep_left_behind(tmp_path, print)
    assert not owner.exists()


def test_what_a_living_owner_has_is_left_alone(tmp_path: Path) -> None:
    with own_runs(tmp_path) as owner, own_cleanup_journal(tmp_path, owner, print) as cleanup, group() as process:
        scratch = Scratch.make({"TMPDIR": str(tmp_path)}, cleanup)
        scratch.note_group(process.pid)

        assert not find_left_behind(tmp_path)
        assert not sweep_left_behind(tmp_path, print)
        assert process.poll() is None
        assert scratch.folder.exists()
        scratch.remove()
    assert list((tmp_path / FOLDER_NAME).iterdir()) == []


def test_a_group_that_got_the_number_of_an_ended_one_is_left_alone(tmp_path: Path) -> None:
    cleanup = of_a_dead_owner(tmp_path)
    with group() as other:
        note = {"leader": other.pid, "began": f"{began_at(os.getpid())}"}
        (tmp_path / FOLDER_NAME / "dead" / "note").write_text(json.dumps(note))

        assert not sweep_left_behind(tmp_path, print)
        assert other.poll() is None
    assert cleanup.list_notes() == []


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="this system does not show environments")
@pytest.mark.parametrize("is_ours", [True, False])
def test_a_group_whose_leader_has_left_is_known_by_its_temporary_folder(tmp_path: Path, is_ours: bool) -> None:
    scratch = Scratch.make({"TMPDIR": str(tmp_path)}, of_a_dead_owner(tmp_path))
    folder = scratch.folder if is_ours else tmp_path
    with group("sleep 1000 &", TMPDIR=str(folder)) as process:
        scratch.note_group(process.pid)
        process.wait(SECONDS)

        assert sweep_left_behind(tmp_path, print).groups == ((process.pid,) if is_ours else ())
        if not is_ours:
            os.killpg(process.pid, 9)


def test_only_folders_that_are_its_own_are_removed(tmp_path: Path) -> None:
    cleanup = of_a_dead_owner(tmp_path)
    treasure = tmp_path / "treasure"
    (treasure / "below").mkdir(parents=True)
    scratch = Scratch.make({"TMPDIR": str(tmp_path)}, cleanup)
    shutil.rmtree(scratch.folder)
    scratch.folder.symlink_to(treasure)
    cleanup.note_scratch("note", treasure)

    sweep_left_behind(tmp_path, print)

    assert (treasure / "below").exists()


def test_a_note_that_was_not_written_to_its_end_is_dropped(tmp_path: Path) -> None:
    of_a_dead_owner(tmp_path)
    (tmp_path / FOLDER_NAME / "dead" / "note").write_text('{"scra')

    assert not sweep_left_behind(tmp_path, print)
    assert list((tmp_path / FOLDER_NAME).iterdir()) == []
