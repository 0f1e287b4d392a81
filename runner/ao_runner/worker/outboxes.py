"""Where workers keep their outboxes: numbered places per coordinator, taken by whoever finds one free.

A worker that starts again takes the place of the one that died, and with it what that one had not delivered.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ao_runner.home import make_private
from ao_runner.outbox import (
    Outbox,
    OutboxBusy,
    OutboxOptions,
    OutboxUnusable,
    StateDamaged,
    is_left_behind,
)
from ao_runner.worker.log import Log

MOST_WORKERS: Final = 1000


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
