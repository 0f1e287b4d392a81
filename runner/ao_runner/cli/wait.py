"""Wait for a run that a worker performs, and show it as if it were performed here."""

import sys
import time
from pathlib import Path
from typing import Final

import click

from ao_protocol.events import Failure, InvalidEvent, Result, Terminal, parse_event
from ao_runner.cli.listeners import follow_run
from ao_runner.cli.options import Style
from ao_runner.cli.show_result import show_terminal
from ao_runner.run_events import Relayed
from ao_runner.runs.lost_runs import end_lost_runs
from ao_runner.runs.outcome import exit_code_of
from ao_runner.store.records import OPEN_STATUSES, Run
from ao_runner.store.rows import RowDamaged
from ao_runner.store.store import Store

POLL_SECONDS: Final = 0.05
SWEEP_SECONDS: Final = 2.0


def wait_for(store: Store, home: Path, run: Run, style: Style) -> None:
    """Follow a run to its end, show it as wished, and leave with its exit code. Ctrl-C leaves it to its worker."""
    began_at = time.monotonic()
    try:
        terminal = _followed(store, home, run, style)
    except KeyboardInterrupt:
        click.echo(f"\nthe run continues; cancel it with: ao cancel {run.run_id}", err=True)
        sys.exit(130)
    if style == "people":
        seconds = time.monotonic() - began_at
        show_terminal(terminal, store.find_session(run.session_id), seconds, store.rejected_in(run.run_id))
    sys.exit(int(exit_code_of(terminal)))


def _followed(store: Store, home: Path, run: Run, style: Style) -> Terminal:
    position, sweep_at = 0, time.monotonic() + SWEEP_SECONDS
    with follow_run(style, None, _nothing_to_stop) as listener:
        while True:
            # Asked before reading: an event that comes between the two is read in the next round.
            kept = store.last_run(run.session_id, run.run_id)
            is_over = kept is None or kept.status not in OPEN_STATUSES
            for stored in store.list_events(run.session_id, position, run.run_id):
                position = stored.position
                line = stored.line.encode()
                try:
                    event = parse_event(line)
                except InvalidEvent as error:
                    raise RowDamaged("events", str(position), f"event {stored.seq}: {error}") from error
                listener.on_event(Relayed(event, line))
                if isinstance(event.body, Result | Failure):
                    return event.body
            if is_over:
                raise RowDamaged("run", run.run_id, "it has ended, and its terminal event cannot be read")
            if time.monotonic() >= sweep_at:
                end_lost_runs(store, home)
                sweep_at = time.monotonic() + SWEEP_SECONDS
            time.sleep(POLL_SECONDS)


def _nothing_to_stop() -> None:
    """The run is a worker's; that nobody reads what is shown here does not stop it."""
