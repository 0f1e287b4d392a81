"""The process that performs a run, and whether it is alive: a crash of the runner must not leave a run open for ever.

An owner is a locked file. The system releases the lock when the process dies, in any way, and unlike a process id, the
random name of the file is never reused.
"""

import asyncio
import errno
import fcntl
import json
import os
import platform
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from ao_runner.home import is_locked, private_folder
from ao_runner.store.store_errors import StoreUnusable

FOLDER_NAME: Final = "owners"


EVERY_PROFILE: Final = "*"


class Owner(NamedTuple):
    """A process that performs runs. `serves` lists the profiles whose runs it claims from the queue."""

    pid: int
    serves: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    """The profiles whose sessions are on storage that all hosts share."""
    host: str | None = None
    drains: bool = False
    """Whether it claims no more runs, and leaves when its own have ended."""
    slots: int = 0
    """How many runs it performs at most at a time; 0 if it does not tell."""
    outbox_seconds: float = 0.0
    """The age of its oldest undelivered event, when it last told."""
    needs_tag: bool = False
    """See `Offer.needs_tag`."""

    def takes(self, profile: str) -> bool:
        """Return whether the process claims runs of a profile from the queue."""
        return not self.drains and (EVERY_PROFILE in self.serves or profile in self.serves)


REMOTE: Final = "remote-"
"""The prefix of the name of an owner that uses a store through a server, and so has no locked file on this host."""
MAX_LEASE_SECONDS: Final = 3600.0
"""A longer lease in the store of one host is from before the machine's last start, when its clock began again."""
IDLE_LEASE_SECONDS: Final = 30.0
"""Three intervals of heartbeats of a worker without runs, which does not know how short the lease of a run is."""


def host_name() -> str:
    """Return the name of this host: `AO_HOST`, else that of the machine."""
    return os.environ.get("AO_HOST") or platform.node()


@contextmanager
def own_runs(home: Path, serves: Sequence[str] = (), tags: Sequence[str] = ()) -> Iterator[str]:
    """Yield the name of this owner, which is alive inside the `with` block. Other processes can read its details.

    Raises:
        StoreUnusable: The home cannot be created or written.
    """
    folder = home / FOLDER_NAME
    path = folder / secrets.token_hex(8)
    with ExitStack() as stack:
        try:
            private_folder(home, FOLDER_NAME)
            lock = stack.enter_context(path.open("xb", buffering=0))
            path.chmod(0o600)
            stack.callback(path.unlink, missing_ok=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write(json.dumps({"pid": os.getpid(), "serves": list(serves), "tags": list(tags)}).encode())
        except OSError as error:
            raise StoreUnusable(folder, error.strerror or str(error)) from error
        yield path.name


def is_alive(home: Path, owner: str) -> bool:
    """Return whether an owner's process still holds its lock."""
    return _is_locked(home / FOLDER_NAME / owner)


def forget_owner(home: Path, owner: str) -> None:
    """Remove the file of a dead owner; its name is never reused."""
    (home / FOLDER_NAME / owner).unlink(missing_ok=True)


def living_owners(home: Path) -> dict[str, Owner]:
    """Return the living owners by name; an owner of an older version, which stores no details, has the pid 0."""
    folder = home / FOLDER_NAME
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return {path.name: _told_by(path) for path in paths if _is_locked(path)}


def _is_locked(path: Path) -> bool:
    """Return whether a process holds the lock. Never remove the file, because a new one is not locked yet."""
    try:
        with path.open("rb") as lock:
            return is_locked(lock.fileno())
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise


def _told_by(path: Path) -> Owner:
    try:
        told = json.loads(path.read_bytes() or b"{}")
    except (OSError, ValueError, RecursionError):
        told = {}  # the owner has just exited, or is just writing
    document = told if isinstance(told, dict) else {}
    pid, serves, tags = document.get("pid"), document.get("serves"), document.get("tags")
    return Owner(pid if isinstance(pid, int) else 0, _texts(serves), _texts(tags))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def uptime_seconds() -> float:
    """Return the time since the machine started, including sleep."""
    return time.clock_gettime(_CLOCK)


WAKEUP_FOLDER: Final = "bells"
LOOK_SECONDS: Final = 1.0
"""Interval at which processes that wait for a notification poll, since one may be lost."""


class Wakeup:
    """Wakes the tasks of one process that wait for a change of the store; any number of tasks can wait."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    async def wait(self, timeout_seconds: float) -> None:
        """Return at the next notification, or after the timeout."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            async with asyncio.timeout(timeout_seconds):
                await future
        except TimeoutError:
            return
        finally:
            self._waiting.discard(future)

    def notify(self) -> None:
        """Wake all waiting tasks of this process."""
        for future in self._waiting:
            if not future.done():
                future.set_result(None)


@contextmanager
def own_wakeup(home: Path, name: str) -> Iterator[Wakeup]:
    """Yield a wakeup that other processes can trigger inside the `with` block."""
    folder = private_folder(home, WAKEUP_FOLDER)
    wakeup = Wakeup()
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear, _short_path(folder) as place:
        ear.setblocking(False)
        ear.bind(f"{place}/{name}")
        (folder / name).chmod(0o600)

        def hear() -> None:
            with suppress(BlockingIOError):
                while ear.recv(1):
                    pass
            wakeup.notify()

        loop.add_reader(ear, hear)
        try:
            yield wakeup
        finally:
            loop.remove_reader(ear)
            (folder / name).unlink(missing_ok=True)


def notify(home: Path) -> None:
    """Wake all processes that wait for a change of this home.

    The notification carries no data, and one of two may get lost, so waiting processes also poll.
    """
    folder = home / WAKEUP_FOLDER
    if not folder.is_dir():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mouth, _short_path(folder) as place:
        mouth.setblocking(False)
        for name in os.listdir(folder):  # noqa: PTH208  # names are what is wanted
            try:
                mouth.sendto(b"!", f"{place}/{name}")
            except ConnectionRefusedError:
                (folder / name).unlink(missing_ok=True)  # its owner was killed
            except (FileNotFoundError, BlockingIOError):
                continue  # it has just exited, or has not handled the last notification yet


@contextmanager
def _short_path(folder: Path) -> Iterator[str]:
    """Yield a path of the folder that fits into a socket address, which is limited to about 100 bytes."""
    descriptor_names = Path("/proc/self/fd")
    if not descriptor_names.is_dir():
        yield str(folder)
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield str(descriptor_names / str(descriptor))
    finally:
        os.close(descriptor)
