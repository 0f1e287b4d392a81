"""Who is left of a run: the processes that live in its folder and do not end."""

import os
import select
from pathlib import Path


def processes_in(folder: Path, timeout_seconds: float = 5.0) -> list[int]:
    """Return the processes that live in a folder and do not end within the time."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _lives_in(entry, folder)]
    return [pid for pid in pids if not ends(pid, timeout_seconds)]


def _lives_in(entry: Path, folder: Path) -> bool:
    try:
        return (entry / "cwd").readlink() == folder
    except OSError:
        return False


def ends(pid: int, timeout_seconds: float) -> bool:
    """Wait for the end of a process; False when it does not come within the time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], timeout_seconds)[0])
    finally:
        os.close(descriptor)


def name_of(process: int) -> str:
    """Return the name of a program; empty if it has ended."""
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""
