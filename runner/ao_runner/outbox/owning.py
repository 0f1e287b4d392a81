"""The owner of an outbox: the process that holds the lock on its folder. The system releases the lock when it dies."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ao_runner.home import locked, make_private, take_lock
from ao_runner.outbox.outbox_errors import OutboxBusy

LOCK_NAME: Final = "lock"
FOLDER_NAME: Final = "outboxes"
USUAL_PORTS: Final = {"http": 80, "https": 443}
_IN_USE: Final = b"in use\n"
"""Contents of the lock file from the beginning of an ownership until the folder is left empty."""
_LEFT_OVER: Final = b"in use, holds events of a dead owner\n"
"""Contents of the lock file until the owner has handed over the events of an earlier owner."""


@contextmanager
def owned(folder: Path) -> Iterator[int]:
    """Own a folder, created if missing, inside the `with` block; yield the descriptor of its lock.

    The owner calls `note_own` once the file of the outbox exists: from then on a missing file is damage.

    Raises:
        OutboxBusy: Another process owns it.
        OSError: It cannot be created or written.
    """
    make_private(folder)
    lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not take_lock(lock):
            raise OutboxBusy(folder)
        if os.fstat(lock).st_size > 0:
            os.pwrite(lock, _LEFT_OVER, 0)
        yield lock
    finally:
        os.close(lock)


def found_leftovers(lock: int) -> bool:
    """Return whether an earlier owner left events in the owned folder, before `note_own` replaces that information."""
    return os.pread(lock, len(_LEFT_OVER), 0) == _LEFT_OVER


def note_own(lock: int, *, is_empty: bool = False) -> None:
    """Record that a folder holds no more events of an earlier owner, or no events at all."""
    text = b"" if is_empty else _IN_USE
    os.pwrite(lock, text, 0)
    os.ftruncate(lock, len(text))


def holds_leftovers(folder: Path) -> bool:
    """Return whether a folder holds events that a dead owner had not handed over, whether or not it is owned now."""
    try:
        return (folder / LOCK_NAME).read_bytes() == _LEFT_OVER or is_left_behind(folder)
    except OSError:
        return False


def is_left_behind(folder: Path) -> bool:
    """Return whether a folder has no owner and holds events that its last owner had not handed over."""
    lock = folder / LOCK_NAME
    if not (lock.is_file() and lock.stat().st_size):
        return False
    with locked(lock) as is_ours:
        return is_ours


def places_of(home: Path, coordinator: str) -> Path:
    """Return the folder of the outboxes for one coordinator, given by name or by any spelling of its URL."""
    if coordinator.isalnum():
        return home / FOLDER_NAME / coordinator
    return home / FOLDER_NAME / hashlib.sha256(_address(coordinator).encode()).hexdigest()[:16]


def _address(url: str) -> str:
    """Return the normal form of a URL, without user and password. Other text stays unchanged."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return url
    if host is None:
        return url
    place = f"[{host}]" if ":" in host else host
    if port is not None and port != USUAL_PORTS.get(parts.scheme):
        place = f"{place}:{port}"
    return f"{parts.scheme}://{place}{parts.path.rstrip('/')}"


def leftovers_wait(places: Path) -> bool:
    """Return whether events of a dead worker are still undelivered, even if a process delivers them now."""
    return places.is_dir() and any(map(holds_leftovers, places.iterdir()))
