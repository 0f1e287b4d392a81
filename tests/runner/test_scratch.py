"""Each run has a TMPDIR of its own, and nothing of it is left."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from ao_protocol.events import Result
from ao_runner.belongings import Belongings
from ao_runner.scratch import MOST_ENTRIES, Scratch
from tests.runner.performing import perform


def test_a_run_has_a_folder_for_temporary_files_and_leaves_none(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()

    terminal = perform("shows_its_environment", tmp_path, environ={**os.environ, "TMPDIR": str(temporary)}).terminal

    assert isinstance(terminal, Result)
    assert Path(json.loads(str(terminal.result_text))["environment"]["TMPDIR"]).parent == temporary
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("files", [0, 3, MOST_ENTRIES + 1])
def test_a_folder_is_removed_with_what_is_in_it_and_its_note_is_forgotten(files: int, tmp_path: Path) -> None:
    async def remove() -> None:
        notes = Belongings(tmp_path / "notes")
        (tmp_path / "notes").mkdir()
        scratch = Scratch.make({"TMPDIR": str(tmp_path)}, notes)
        folder = scratch.folder
        assert [note.scratch for note in notes.list_notes()] == [folder]
        (folder / "below").mkdir()
        for number in range(files):
            (folder / "below" / str(number)).touch()
        scratch.remove()
        async with asyncio.timeout(30):
            while notes.list_notes():  # noqa: ASYNC110  # another process removes it
                await asyncio.sleep(0.005)
        assert not folder.exists()

    asyncio.run(remove())
