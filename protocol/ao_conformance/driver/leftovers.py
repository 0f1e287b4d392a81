"""What a process has started, found and ended: by group, and by a mark in the environment that is inherited."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

MARK: Final = "AO_CONFORM_PLAY"
ROUNDS: Final = 50
ROUND_SECONDS: Final = 0.02


def marked_processes(mark: str, group: int) -> list[int]:
    """Return the living processes that carry the mark or are of the group; zombies do not live.

    Without /proc (macOS) only the group can be seen, and one entry stands for all of it.
    """
    if sys.platform != "linux":
        return [group] if _group_lives(group) else []
    wanted = mark.encode()
    return [
        int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _belongs(entry, wanted, group)
    ]


def end_processes(group: int, family: Callable[[], list[int]]) -> None:
    """Kill the group and everything that is found, again and again until nothing is; at most about a second."""
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
    """Return the arguments of a process for people; empty where they cannot be read."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _belongs(entry: Path, mark: bytes, group: int) -> bool:
    try:
        state, _, process_group = (
            (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:3]
        )
        if state in "ZX":
            return False
        return int(process_group) == group or mark in (entry / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
