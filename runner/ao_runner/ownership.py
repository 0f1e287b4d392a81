"""Which process performs a run, and whether it still lives: a crash of the runner must not leave a run open for ever.

An owner is a locked file. The system gives the lock back when the process dies, however it dies, and unlike a
process id a file's random name comes only once.
"""

import fcntl
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

FOLDER_NAME: Final = "owners"


@contextmanager
def own_runs(home: Path) -> Iterator[str]:
    """Yield this owner's name, which is alive inside the `with` block."""
    folder = home / FOLDER_NAME
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / secrets.token_hex(8)
    with path.open("xb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield path.name
        finally:
            path.unlink(missing_ok=True)


def is_alive(home: Path, owner: str) -> bool:
    """Say whether an owner's process still holds its lock."""
    path = home / FOLDER_NAME / owner
    try:
        with path.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    path.unlink(missing_ok=True)
    return False
