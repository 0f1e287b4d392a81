"""Who owns an outbox: the process that holds the lock on its folder. The system gives it back when that one dies."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ao_runner.home import make_private, take_lock
from ao_runner.outbox.errors import OutboxBusy

LOCK_NAME: Final = "lock"
FOLDER_NAME: Final = "outboxes"
USUAL_PORTS: Final = {"http": 80, "https": 443}
_IN_USE: Final = b"in use\n"
"""What the lock's file holds from the beginning of an ownership until the folder is left with nothing in it."""
_LEFT_OVER: Final = b"in use, holds events of a dead owner\n"
"""What it holds instead until the owner has handed over what it found."""


@contextmanager
def owned(folder: Path) -> Iterator[int]:
    """Own a folder, made when it is not there, inside the `with` block; yields the descriptor of its lock.

    Raises:
        OutboxBusy: somebody owns it already.
        OSError: it cannot be made or written.
    """
    make_private(folder)
    lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not take_lock(lock):
            raise OutboxBusy(folder)
        if os.fstat(lock).st_size > 0:
            os.pwrite(lock, _LEFT_OVER, 0)
        else:
            note_own(lock)
        yield lock
    finally:
        os.close(lock)


def found_leftovers(lock: int) -> bool:
    """Tell whether an earlier owner had left something in a folder that is owned now and has not been noted yet."""
    return os.pread(lock, len(_LEFT_OVER), 0) == _LEFT_OVER


def note_own(lock: int, *, is_empty: bool = False) -> None:
    """Note that a folder holds nothing of an earlier owner any more, or nothing at all."""
    text = b"" if is_empty else _IN_USE
    os.pwrite(lock, text, 0)
    os.ftruncate(lock, len(text))


def holds_leftovers(folder: Path) -> bool:
    """Tell whether a folder holds something that a dead owner had not handed over, whoever owns it now."""
    try:
        return (folder / LOCK_NAME).read_bytes() == _LEFT_OVER or is_left_behind(folder)
    except OSError:
        return False


def is_left_behind(folder: Path) -> bool:
    """Tell whether a folder has no owner, and holds something that its last one had not handed over."""
    try:
        lock = os.open(folder / LOCK_NAME, os.O_RDWR)
    except OSError:
        return False
    try:
        return os.fstat(lock).st_size > 0 and take_lock(lock)
    finally:
        os.close(lock)


def places_of(home: Path, coordinator: str) -> Path:
    """Return the folder of the outboxes for one coordinator, by its name or URL, however that is spelled."""
    if coordinator.isalnum():
        return home / FOLDER_NAME / coordinator
    return home / FOLDER_NAME / hashlib.sha256(_address(coordinator).encode()).hexdigest()[:16]


def _address(url: str) -> str:
    """Return what all spellings of a URL have in common, without user and password. What is no URL stays as it is."""
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
    """Tell whether anything of a dead worker is still to be delivered, also where somebody does so now."""
    return places.is_dir() and any(map(holds_leftovers, places.iterdir()))
