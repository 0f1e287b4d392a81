"""The stored events of a session, also while its runs go on."""

import sys
import time
from collections.abc import Iterator
from typing import Final

from ao_runner.processes.output_reader import check_reader
from ao_runner.runs.lost_runs import fail_lost_runs
from ao_runner.store.records import OPEN_STATUSES, StoredEvent
from ao_runner.store.store import Store

POLL_SECONDS: Final = 0.05
SWEEP_SECONDS: Final = 2.0
"""So often runs are looked for whose worker is gone."""


def stored_events(store: Store, session_id: str, run_id: str | None, *, follow: bool) -> Iterator[StoredEvent]:
    """Yield the events of a session, or of one of its runs, in order. With `follow`, wait for more until it has ended.

    Raises:
        RowDamaged: A row cannot be read.
        BrokenPipeError: There was nothing to write while it waited, and nobody reads stdout any more.
    """
    position, sweep_at = 0, time.monotonic() + SWEEP_SECONDS
    while True:
        # Asked before reading: an event that comes between the two is read in the next round.
        runs = store.runs.of_sessions(session_id) if run_id is None else [store.runs.last(session_id, run_id)]
        goes_on = follow and any(run is not None and run.status in OPEN_STATUSES for run in runs)
        for event in store.events.of_session(session_id, position, run_id):
            position = event.position
            yield event
        if not goes_on:
            return
        if time.monotonic() >= sweep_at:
            fail_lost_runs(store)
            sweep_at = time.monotonic() + SWEEP_SECONDS
        check_reader(sys.stdout.fileno())
        time.sleep(POLL_SECONDS)
