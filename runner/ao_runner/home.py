"""The folder of a user's sessions, runs and profiles, and locks that end with the process that holds them."""

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

from ao_runner.errors import RunnerError

WORKSPACES: Final = "workspaces"
"""The folder of the home with the workspaces of sessions."""


def default_home() -> Path:
    """Return the default folder.

    Raises:
        RunnerError: This user has no data folder, as in a container whose user has no name.
    """
    from platformdirs import user_data_dir

    try:
        return Path(user_data_dir("ao"))
    except RuntimeError as error:
        told = "the user's data folder cannot be determined: HOME is not set; use --home or AO_HOME"
        raise RunnerError(told) from error


class HomeOpen(RunnerError):
    """Other users can write to the home, and this user cannot change that."""

    def __init__(self, home: Path, reason: str) -> None:
        super().__init__(
            f"others can write to {home} ({reason}); expected a folder that only you can write: run"
            f" `chmod 700 {home}` as its owner, or choose a folder of its own with --home or AO_HOME"
        )


def private_home(home: Path) -> None:
    """Create the home with mode 0700. Set that mode, with a message on stderr, if other users can write to it.

    Raises:
        HomeOpen: Other users can write to it, and its mode cannot be changed or it is shared (sticky bit).
        OSError: It cannot be created.
    """
    make_private(home)
    mode = home.stat().st_mode
    if not mode & 0o022:
        return
    if mode & stat.S_ISVTX:
        raise HomeOpen(home, f"mode {stat.S_IMODE(mode):04o}, a folder that users share")
    try:
        home.chmod(0o700)
    except OSError as error:
        if error.errno == errno.EROFS:
            return
        raise HomeOpen(home, f"mode {stat.S_IMODE(mode):04o}, {error.strerror}") from error
    with suppress(OSError, ValueError):
        sys.stderr.write(f"ao: others could write to {home}; its mode is 0700 now\n")


def private_folder(home: Path, *names: str) -> Path:
    """Return a folder below the home, created if missing; it and its parents up to the home get mode 0700.

    Raises:
        HomeOpen: See `private_home`; or the mode of a folder cannot be set.
        OSError: It cannot be created.
    """
    private_home(home)
    folder = home
    for name in names:
        folder /= name
        make_private(folder)
        mode = stat.S_IMODE(folder.stat().st_mode)
        if mode & 0o077:
            try:
                folder.chmod(0o700)
            except OSError as error:
                raise HomeOpen(folder, f"mode {mode:04o}, {error.strerror}") from error
    return folder


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents; `Path.mkdir` applies the mode only to the last one."""
    for missing in [path for path in reversed((folder, *folder.parents)) if not path.exists()]:
        missing.mkdir(mode=0o700, exist_ok=True)


def is_locked(descriptor: int) -> bool:
    """Return whether a descriptor's file is locked. Concurrent calls of this function do not affect each other."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def take_lock(descriptor: int) -> bool:
    """Lock a descriptor's file if no other process has, without waiting; return whether this succeeded."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Lock a file or folder inside the `with` block; yield False if it is not there or another process holds it."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        yield take_lock(descriptor)
    finally:
        os.close(descriptor)


def renamed_as_damaged(folder: Path, names: Sequence[str]) -> list[Path]:
    """Rename files of a folder, in this order, to names that are free; return the new paths of those that existed.

    Raises:
        OSError: They cannot be renamed.
    """
    number = next(one for one in count(1) if not any(folder.glob(f"damaged-{one}-*")))
    kept = []
    for name in names:
        with suppress(FileNotFoundError):
            kept.append((folder / name).rename(folder / f"damaged-{number}-{name}"))
    return kept
