"""How far the delivery of a worker's events is behind."""

import json
from itertools import islice
from typing import Final

from ao_runner.outbox.errors import OutboxUnreadable, RecordDamaged
from ao_runner.outbox.outbox import Outbox
from ao_runner.store.records import seconds_since

MOST_RUNS: Final = 100
"""Maximum number of runs to look at, those first that have waited for longest."""


def oldest_age_seconds(outbox: Outbox) -> float:
    """Return the age of the oldest undelivered event by its own timestamp; 0 if all are delivered."""
    waiting = (state for state in outbox.open_keys() if state.durable_seq != state.acknowledged_seq)
    ages = [0.0]
    for state in islice(waiting, MOST_RUNS):
        try:
            batch = outbox.next_batch(state.key, max_events=1)
        except (RecordDamaged, OutboxUnreadable):
            continue  # delivery reports it
        if batch is not None:
            ages.append(seconds_since(json.loads(batch.lines[0])["timestamp"]))
    return max(ages)
