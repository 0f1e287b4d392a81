"""Remove what foreign processes have filled: a folder, or the cgroup of a run (its leaf), with all contents.

In a folder it follows no link and never enters another mount.

usage: python -I -S removal.py FOLDER      prints the remaining entries, as a JSON list of sentences

A bind mount has the device of its source, so mounts are distinguished by their ids, if the system provides them.
It imports nothing of this project.
"""

import errno
import os
import select
import stat
import sys
from contextlib import suppress
from itertools import islice

MOST_NAMED = 20
"""Maximum number of remaining entries to name; further ones are only counted."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNREAD = _FOLDER | getattr(os, "O_PATH", 0)
"""Flags that also open an unreadable folder."""


class TooManyEntries(Exception):
    """There are more entries to remove than allowed; some may have been removed already."""


def remove_tree(folder: str, most_entries: int = sys.maxsize - 1) -> list[str]:
    """Remove a folder and all its contents at any depth, and return the path and cause of each remaining entry.

    Raises:
        TooManyEntries: There are more than `most_entries`.
    """
    above, name = os.path.split(os.path.abspath(folder))  # noqa: PTH100  # pathlib would double this program's start
    try:
        here = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        return [f"{above!r}: {error.strerror}"]
    removal = _Removal(here, above, most_entries)
    try:
        removal.remove(name)
    finally:
        os.close(removal.here)
    untold = removal.left_count - len(removal.left)
    return [*removal.left, f"and {untold} more"] if untold else removal.left


class _Removal:
    """Traverses with one descriptor, since depth is unbounded: `..` and its identity lead to the parent folder."""

    def __init__(self, here: int, above: str, most_entries: int) -> None:
        self.here = here
        self.left: list[str] = []
        self.left_count = 0
        self._path = [above]
        self._room = most_entries

    def remove(self, name: str) -> None:
        waiting, trail = [name], list[tuple[tuple[int, int], list[str], int]]()
        while waiting or trail:
            if waiting:
                self._path.append(waiting.pop())
                try:
                    identity = _identity(self.here)
                    self._go_to(_open_below(self._path[-1], self.here))
                except OSError as error:
                    if not isinstance(error, FileNotFoundError):
                        self._leave(error)
                    self._path.pop()
                    continue
                trail.append((identity, waiting, self.left_count))
                waiting = self._empty()
                continue
            identity, waiting, left_before = trail.pop()
            self._go_to(os.open("..", _FOLDER, dir_fd=self.here))
            if _identity(self.here) != identity:  # it was moved: the contents here are not ours to remove
                self._leave(OSError(errno.EBUSY, "it was moved meanwhile"))
                return
            try:
                os.rmdir(self._path[-1], dir_fd=self.here)
            except FileNotFoundError:
                pass
            except OSError as error:
                if self.left_count == left_before:
                    self._leave(error)
            self._path.pop()

    def _empty(self) -> list[str]:
        """Remove the files of this folder and return the names of its subfolders."""
        folders = []
        try:
            with os.scandir(self.here) as found:
                entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in islice(found, self._room + 1)]
        except OSError as error:
            self._leave(error)
            return []
        self._room -= len(entries)
        if self._room < 0:
            raise TooManyEntries
        for name, is_folder in entries:
            if is_folder:
                folders.append(name)
                continue
            try:
                os.unlink(name, dir_fd=self.here)  # as above
            except FileNotFoundError:
                continue
            except OSError as error:
                self._path.append(name)
                self._leave(error)
                self._path.pop()
        return folders

    def _go_to(self, folder: int) -> None:
        os.close(self.here)
        self.here = folder

    def _leave(self, error: OSError) -> None:
        self.left_count += 1
        if self.left_count <= MOST_NAMED:
            # Shown as a literal: foreign processes choose the names, which may contain control characters.
            self.left.append(f"{'/'.join(self._path)[:1000]!r}: {error.strerror}")


def _open_below(name: str, above: int) -> int:
    """Open a folder, made accessible if its mode forbids that, and only on the mount of its parent."""
    unread = os.open(name, _UNREAD, dir_fd=above)
    try:
        if _mount_of(unread) != _mount_of(above):
            raise OSError(errno.EXDEV, "it is on another mount")
        mode = os.fstat(unread).st_mode
        if mode & stat.S_IRWXU != stat.S_IRWXU and hasattr(os, "O_PATH"):
            with suppress(OSError):  # the next call reports the missing permission
                os.chmod(f"/proc/self/fd/{unread}", mode | stat.S_IRWXU)  # noqa: PTH101  # as above
        return os.open(".", _FOLDER, dir_fd=unread)
    finally:
        os.close(unread)


def _mount_of(folder: int) -> tuple[int, bytes]:
    """Return a value that is unique for each mount. Without /proc it is the device, which bind mounts share."""
    number = b""
    with suppress(OSError), open(f"/proc/self/fdinfo/{folder}", "rb") as info:  # noqa: PTH123  # as above
        number = next((line for line in info if line.startswith(b"mnt_id:")), b"")
    return os.fstat(folder).st_dev, number


def _identity(folder: int) -> tuple[int, int]:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino


def kill_leaf(leaf: str) -> None:
    """Kill all processes in a cgroup and below atomically, so that no fork escapes. A missing cgroup is no error."""
    with suppress(OSError), open(f"{leaf}/cgroup.kill", "w") as switch:  # noqa: PTH123  # as above
        switch.write("1")


def await_empty_leaf(leaf: str, timeout_milliseconds: int) -> None:
    """Wait until no process is in a cgroup or below, or until the timeout."""
    with open(f"{leaf}/cgroup.events") as events:  # noqa: PTH123  # as above
        poll = select.poll()
        poll.register(events, select.POLLPRI)
        while "populated 0" not in events.read() and poll.poll(timeout_milliseconds):
            events.seek(0)


def remove_leaf(leaf: str) -> None:
    """Remove a cgroup and all cgroups below it. One that still contains a process stays."""
    with suppress(OSError):
        for entry in os.scandir(leaf):
            if entry.is_dir(follow_symlinks=False):
                remove_leaf(entry.path)
        os.rmdir(leaf)  # noqa: PTH106  # as above


if __name__ == "__main__":
    import json

    sys.stdout.write(json.dumps(remove_tree(sys.argv[1])))
