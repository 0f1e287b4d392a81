"""The folder where sessions, runs and profiles of a user are kept, and locks that end with the process holding them."""

import errno
import fcntl
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ao_runner.errors import RunnerError


class NoUserFolder(RunnerError):
    """The user's data folder cannot be told, as in a container whose user has no name."""

    def __str__(self) -> str:
        return "the user's data folder cannot be determined: HOME is not set; use --home or AO_HOME"


def default_home() -> Path:
    """Return the folder that is used when nobody chooses one.

    Raises:
        NoUserFolder: this user has no folder.
    """
    from platformdirs import user_data_dir

    try:
        return Path(user_data_dir("ao"))
    except RuntimeError as error:
        raise NoUserFolder from error


@dataclass(eq=False)
class HomeOpen(RunnerError):
    """Other users can write to the home, and this one cannot change that."""

    home: Path
    reason: str

    def __str__(self) -> str:
        return (
            f"others can write to {self.home} ({self.reason}); expected a folder that only you can write: run"
            f" `chmod 700 {self.home}` as its owner, or choose a folder of its own with --home or AO_HOME"
        )


def private_home(home: Path) -> None:
    """Make the home with mode 0700; one that others can write gets it too, which is told on stderr.

    Raises:
        HomeOpen: others can write to it, and its mode cannot be changed, or others keep files there (sticky bit).
        OSError: it cannot be made.
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
    """Return a folder below the home, made where it is not there; it and those above it up to the home get mode 0700.

    Raises:
        HomeOpen: see `private_home`; or the mode of a folder cannot be set.
        OSError: it cannot be made.
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
    """Make a folder and those that it lacks above it; `Path.mkdir` gives the mode to the last one only."""
    for missing in [path for path in reversed((folder, *folder.parents)) if not path.exists()]:
        missing.mkdir(mode=0o700, exist_ok=True)


def is_locked(descriptor: int) -> bool:
    """Tell whether somebody has locked what a descriptor stands for. Others who ask at the same moment are not seen."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def take_lock(descriptor: int) -> bool:
    """Lock what a descriptor stands for, if nobody else has; return whether it is ours. Nobody is waited for."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
