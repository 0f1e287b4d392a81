"""Find and remove what a play leaves: its processes, by group and by an inherited mark, and its folder."""

import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ao_lifeline.removal import remove_tree

MARK: Final = "AO_CONFORM_PLAY"
PREFIX: Final = f"{MARK}=".encode()
ROUNDS: Final = 50
ROUND_SECONDS: Final = 0.02


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Create a folder that only this user can read; name on stderr what cannot be removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
    try:
        yield folder
    finally:
        for left in remove_tree(str(folder)):
            sys.stderr.write(f"ao: a temporary file cannot be removed: {left}; remove it by hand\n")


def marked_processes(mark: str, group: int, folder: Path | None) -> list[int]:
    """Return the processes that carry the mark, are in the group, or work in the folder. Zombies do not count.

    The folder identifies a daemon with an environment of its own. A process with another mark belongs to another play.

    Without /proc (macOS) only the group can be seen, and one entry represents all of it.
    """
    if sys.platform != "linux":
        return [group] if _group_lives(group) else []

    def belongs(process: Path) -> bool:
        try:
            stat = (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if stat[0] in "ZX" or int(stat[2]) == group:
                return stat[0] not in "ZX"
            variables = (process / "environ").read_bytes().split(b"\0")
            if any(variable.startswith(PREFIX) for variable in variables):
                return mark.encode() in variables
            return folder is not None and (process / "cwd").readlink().is_relative_to(folder)
        except OSError:
            return False

    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and belongs(entry)]


def end_processes(group: int, family: Callable[[], list[int]]) -> None:
    """Kill the group and the family until none of them is alive, for about a second at most."""
    for _ in range(ROUNDS):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        found = [pid for pid in family() if pid != os.getpid()]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(ROUND_SECONDS)


def command_line(pid: int) -> str:
    """Return the arguments of a process for people; empty if they cannot be read."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def cpu_seconds_of(pid: int) -> float | None:
    """Return the CPU seconds that a process has used; None if it has ended or the machine does not report them."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def named_processes(family: Callable[[], list[int]]) -> list[str]:
    """Return the family as `pid: command line`, without processes that ended before their name could be read."""
    lines = {pid: command_line(pid) for pid in family()}
    alive = lines.keys() if all(lines.values()) else set(family())
    return [f"{pid}: {line or '?'}" for pid, line in lines.items() if line or pid in alive]


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
