"""A folder for temporary files of one process, its TMPDIR, gone with it."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from ao_runner.spawn import Child

MOST_ENTRIES: Final = 1000
"""So many are removed in some milliseconds."""


def new_scratch(environment: Mapping[str, str]) -> Path:
    """Make a folder that only this user can read, where the environment keeps temporary files.

    Raises:
        OSError: none can be made there.
    """
    return Path(tempfile.mkdtemp(prefix="ao-", dir=environment.get("TMPDIR")))


def remove_scratch(folder: Path) -> None:
    """Remove a folder that nobody uses any more; of one that holds much a process does it, so that no run waits."""
    if _holds_much(folder):
        _have_removed(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _holds_much(folder: Path) -> bool:
    entries = (entry for _, folders, files in os.walk(folder) for entry in (*folders, *files))
    return next(islice(entries, MOST_ENTRIES, None), None) is not None


def _have_removed(folder: Path) -> None:
    try:
        loop = asyncio.get_running_loop()
        remover = Child(["rm", "-rf", "--", str(folder)], {"PATH": os.defpath})
    except (OSError, RuntimeError):
        return  # the machine has no process for it, or nobody could hear its end: it stays, as /tmp keeps what is there

    def hear_the_end() -> None:
        loop.remove_reader(remover.exit_fd)
        remover.close()

    loop.add_reader(remover.exit_fd, hear_the_end)
