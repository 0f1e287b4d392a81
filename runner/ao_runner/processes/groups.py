"""A process group, told from another one that has got its number since.

A group is the one that was noted if its leader began when the noted one did. Where the leader has left and others of
its group have not, they are known by the TMPDIR in their environment, a folder that nobody else was given.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GONE_SECONDS: Final = 1.0
"""How long it may take until what was killed is gone."""


@dataclass(frozen=True, slots=True)
class Group:
    """A process group as it was noted: its leader's process id, and when that one began; `folder` was its TMPDIR."""

    leader: int
    began: str
    folder: Path | None = None

    def is_there(self) -> bool:
        """Tell whether any process of it lives; False where that cannot be told from somebody else's group."""
        if not has_members(self.leader):
            return False
        began = began_at(self.leader)
        if began is not None:
            return began == self.began
        return self.folder is not None and has_member_with(self.leader, self.folder)

    def kill(self) -> bool:
        """Kill it, if it is there, and return whether it was. It is gone then, or will be as soon as it can be."""
        if not self.is_there():
            return False
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.leader, signal.SIGKILL)
        ends_at = time.monotonic() + GONE_SECONDS
        while has_members(self.leader) and time.monotonic() < ends_at:
            time.sleep(0.005)
        return True


if sys.platform == "darwin":
    from ao_runner.processes.spawn import first_line_of

    PS_SECONDS: Final = 10.0

    def began_at(pid: int) -> str | None:
        """Return when a process began, as a text that no later process of the same id has; None if there is none."""
        return first_line_of(["/bin/ps", "-o", "lstart=", "-p", str(pid)], {"LC_ALL": "C"}, PS_SECONDS)

    def has_members(group: int) -> bool:
        """Tell whether any process of a group is there."""
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return began_at(group) is not None  # so it says of a group whose processes have all ended, too
        return True

    def has_member_with(group: int, folder: Path) -> bool:
        """Tell nothing: the environment of others is not reliably shown."""
        return False

else:
    _STATE, _GROUP, _BEGAN = 0, 2, 19
    """Fields of /proc/<pid>/stat behind the name, which may contain anything."""

    def began_at(pid: int) -> str | None:
        """Return when a process began, as a text that no later process of the same id has; None if there is none.

        The kernel counts from its start, and process ids belong to a namespace: both stand in it.
        """
        try:
            fields = _stat(pid)
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
            return f"{boot} {os.readlink('/proc/self/ns/pid')} {fields[_BEGAN]}"  # noqa: PTH115  # it is no path
        except OSError:
            return None

    def has_members(group: int) -> bool:
        """Tell whether any process of a group lives; one that only has to be reaped does not."""
        return next(_members(group), None) is not None

    def has_member_with(group: int, folder: Path) -> bool:
        """Tell whether any process of a group was started with this folder as TMPDIR."""
        wanted = b"TMPDIR=" + os.fsencode(folder)
        return any(wanted in _environment(pid) for pid in _members(group))

    def _members(group: int) -> Iterator[int]:
        for entry in os.listdir("/proc"):  # noqa: PTH208  # thousands of names
            if not entry.isdigit():
                continue
            with suppress(OSError):
                fields = _stat(int(entry))
                if fields[_GROUP] == str(group) and fields[_STATE] not in "ZX":
                    yield int(entry)

    def _environment(pid: int) -> list[bytes]:
        try:
            return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return []

    def _stat(pid: int) -> list[str]:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return text.rpartition(")")[2].split()
