"""Where workers keep their outboxes: numbered places per coordinator, taken by whoever finds one free.

A worker that starts again takes the place of the one that died, and with it what that one had not delivered.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ao_runner.home import make_private
from ao_runner.outbox import (
    Outbox,
    OutboxBusy,
    OutboxOptions,
    OutboxUnusable,
    StateDamaged,
    holds_leftovers,
    is_left_behind,
)
from ao_runner.worker.log import Log

FOLDER_NAME: Final = "outboxes"
MOST_WORKERS: Final = 1000
USUAL_PORTS: Final = {"http": 80, "https": 443}


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


def take_outbox(places: Path, options: OutboxOptions) -> Outbox:
    """Own the first place that is free.

    Raises:
        OutboxUnusable: it cannot be read or written.
        StateDamaged: its state is damaged, and to make it anew could lose something.
        OutboxBusy: a thousand workers are there already.
    """
    make_private(places)
    for number in range(MOST_WORKERS):
        folder = places / str(number)
        try:
            return Outbox(folder, options)
        except OutboxBusy:
            continue
    raise OutboxBusy(places)


def adopt_outboxes(places: Path, options: OutboxOptions, log: Log) -> Iterator[Outbox]:
    """Own, one by one, the outboxes that dead workers have left with something in them."""
    for folder in left_behind(places):
        try:
            outbox = Outbox(folder, options)
        except OutboxBusy:
            continue
        except (OutboxUnusable, StateDamaged) as error:
            log.error("events of a dead worker cannot be delivered", reason=str(error))  # noqa: TRY400  # no bug of ours
            continue
        yield outbox


def left_behind(places: Path) -> list[Path]:
    """Return the outboxes that nobody owns and that still hold events."""
    if not places.is_dir():
        return []
    return [folder for folder in sorted(places.iterdir()) if is_left_behind(folder)]


def leftovers_wait(places: Path) -> bool:
    """Tell whether anything of a dead worker is still to be delivered, also where somebody does so now."""
    return places.is_dir() and any(map(holds_leftovers, places.iterdir()))
