"""Each run has a TMPDIR of its own, and nothing of it is left."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ao_protocol.events import Failure, Result
from ao_runner.processes.cleanup_journal import MOST_ENTRIES, CleanupJournal, Scratch
from tests.mounting import UNSHARED, require_mounts
from tests.process.runner.performing import perform


def test_a_run_has_a_folder_for_temporary_files_and_leaves_none(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()

    terminal = perform("shows_its_environment", tmp_path, environ={**os.environ, "TMPDIR": str(temporary)}).terminal

    assert isinstance(terminal, Result)
    assert Path(json.loads(str(terminal.result_text))["environment"]["TMPDIR"]).parent == temporary
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(("name", "reason"), [("gone", "No such file"), ("file", "Not a directory")])
def test_a_run_that_can_have_no_temporary_files_says_where_they_were_to_be(
    name: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()

    terminal = perform("answers_at_once", tmp_path, environ={**os.environ, "TMPDIR": str(tmp_path / name)}).terminal

    assert isinstance(terminal, Failure)
    assert terminal.error.type == "workspace_error"
    assert f"its folder for temporary files, below {tmp_path / name}; set TMPDIR: {reason}" in terminal.error.message


def _holds_files(folder: Path, number: int) -> None:
    (folder / "below").mkdir()
    for name in range(number):
        (folder / "below" / str(name)).touch()


def _goes_deep(folder: Path, levels: int, name: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=descriptor)
        below = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)


def _may_not_be_written_to(folder: Path, files: int) -> None:
    _holds_files(folder, files)
    (folder / "below").chmod(0o500)


@pytest.mark.parametrize(
    "fill",
    [
        pytest.param(lambda folder: _holds_files(folder, 0), id="nothing"),
        pytest.param(lambda folder: _holds_files(folder, 3), id="little"),
        pytest.param(lambda folder: _holds_files(folder, MOST_ENTRIES + 1), id="much"),
        pytest.param(lambda folder: _may_not_be_written_to(folder, 3), id="read only"),
        # `rm` complains of each, with more than a pipe holds.
        pytest.param(lambda folder: _may_not_be_written_to(folder, 2 * MOST_ENTRIES), id="much that is read only"),
        pytest.param(lambda folder: _goes_deep(folder, 1100, "d"), id="deep"),
        pytest.param(lambda folder: _goes_deep(folder, 1100, "d" * 200), id="deep, and of paths that are too long"),
    ],
)
def test_a_folder_is_removed_with_what_is_in_it_and_its_note_is_forgotten(
    fill: Callable[[Path], None], tmp_path: Path
) -> None:
    async def remove() -> None:
        notes = CleanupJournal(tmp_path / "notes")
        (tmp_path / "notes").mkdir()
        scratch = Scratch.make({"TMPDIR": str(tmp_path)}, notes)
        folder = scratch.folder
        assert [note.scratch for note in notes.list_notes()] == [folder]
        fill(folder)
        scratch.remove()
        async with asyncio.timeout(100):
            while notes.list_notes():  # noqa: ASYNC110  # another process removes it
                await asyncio.sleep(0.005)
        assert not folder.exists()

    asyncio.run(remove())


def _mounted(entries: int, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Remove a scratch folder that holds a bind mount of `outside`, in a mount namespace of its own."""
    for name in ("outside", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "treasure").touch()
    script = f"""
import asyncio, subprocess
from pathlib import Path
from ao_runner.processes.cleanup_journal import CleanupJournal
from ao_runner.processes.cleanup_journal import Scratch

async def remove():
    told = asyncio.Queue()
    scratch = Scratch.make({{"TMPDIR": "tmp"}}, CleanupJournal(None, told.put_nowait))
    for number in range({entries}):
        (scratch.folder / f"file{{number}}").touch()
    mount = scratch.folder / "below" / "mount"
    mount.mkdir(parents=True)
    subprocess.run(["mount", "--bind", "outside", mount], check=True)
    scratch.remove()
    print(await told.get(), [str(path.relative_to(scratch.folder)) for path in scratch.folder.rglob("*")])

asyncio.run(remove())
"""
    return subprocess.run(
        [*UNSHARED, sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


@pytest.mark.parametrize("entries", [3, MOST_ENTRIES + 1], ids=["little", "much"])
def test_what_is_mounted_in_a_folder_is_left_and_named(entries: int, tmp_path: Path) -> None:
    require_mounts()
    told = _mounted(entries, tmp_path).stdout

    assert (tmp_path / "outside" / "treasure").exists()
    assert "/below/mount': it is on another mount; remove it by hand" in told
    assert "['below', 'below/mount', 'below/mount/treasure']" in told


def test_a_link_to_a_folder_is_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "treasure").touch()
    scratch = Scratch.make({"TMPDIR": str(tmp_path)})
    (scratch.folder / "link").symlink_to(tmp_path / "outside")

    scratch.remove()

    assert not scratch.folder.exists()
    assert (tmp_path / "outside" / "treasure").exists()
