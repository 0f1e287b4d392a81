"""Find and end what a play leaves: the descendants of a process, and its folder."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ao_lifeline.program import descendants_of
from ao_lifeline.removal import remove_tree


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Create a folder that only this user can read; name on stderr what cannot be removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
    try:
        yield folder
    finally:
        for left in remove_tree(str(folder)):
            sys.stderr.write(f"ao: a temporary file cannot be removed: {left}; remove it by hand\n")


def living_below(pid: int) -> list[int]:
    """Return the descendants of a process. Zombies do not count."""
    return [each for each in descendants_of(pid) if (fields := _stat(each)) and fields[0] not in "ZX"]


def group_of(pid: int) -> list[int]:
    """Return the leader of a process group, which represents all of it, or nothing if the group has ended (macOS)."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, 0)
        return [pid]
    return []


def command_line(pid: int) -> str:
    """Return the arguments of a process for people; empty if they cannot be read."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def cpu_seconds_of(pid: int) -> float | None:
    """Return the CPU seconds that a process has used; None if it has ended or the machine does not report them."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else None


def named_processes(family: Callable[[], list[int]]) -> list[str]:
    """Return the family as `pid: command line`, without processes that ended before their name could be read."""
    lines = {pid: command_line(pid) for pid in family()}
    alive = lines.keys() if all(lines.values()) else set(family())
    return [f"{pid}: {line or '?'}" for pid, line in lines.items() if line or pid in alive]


def _stat(pid: int) -> list[str]:
    """Return what `/proc/PID/stat` says after the name of the program; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
