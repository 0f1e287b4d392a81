"""`ao events`: the events of a session, as they were relayed, or as a person reads them."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from ao_protocol.events import Failure, parse_event
from ao_runner.cli.damage import leave_if_damaged
from ao_runner.cli.narration import Narrator
from ao_runner.cli.options import examples, home_option, session_argument
from ao_runner.runs.lost_runs import end_lost_runs
from ao_runner.store.records import OPEN_STATUSES, StoredEvent
from ao_runner.store.rows import RowDamaged
from ao_runner.store.store import Store

POLL_SECONDS: Final = 0.2


@click.command(
    "events",
    epilog=examples("ao events last", "ao events ses_4c5ab0 --follow", "ao events last --run run_01 | jq .event_type"),
)
@session_argument
@click.option("-f", "--follow", is_flag=True, help="Wait for new events until the run ends.")
@click.option("--run", "run_id", help="Print only the events of this run: an id, the beginning of one, or `last`.")
@click.option("--text", is_flag=True, help="Print readable lines instead of JSON.")
@home_option
def command(session: str, follow: bool, run_id: str | None, text: bool, home: Path) -> None:
    """Print the events of all runs of SESSION in order, one JSON line each; of a run, if SESSION is the id of one."""
    with Store(home) as store:
        end_lost_runs(store, home)
        session_id, own_run = store.resolve(session)
        run_id = own_run if run_id is None else store.find_run_id(session_id, run_id)
        narrator = Narrator() if text else None
        for event in _events(store, home, session_id, run_id, follow=follow):
            try:
                _show(event, narrator)
            except (ValueError, RecursionError) as error:
                store.damage.add(RowDamaged("events", str(event.position), f"event {event.seq}: {error}"))
    leave_if_damaged(store.damage)


def _events(store: Store, home: Path, session_id: str, run_id: str | None, *, follow: bool) -> Iterator[StoredEvent]:
    position = 0
    while True:
        # Asked before reading: an event that comes between the two is read in the next round.
        goes_on = follow and any(
            run.status in OPEN_STATUSES and run_id in {None, run.run_id} for run in store.list_runs(session_id)
        )
        for event in store.list_events(session_id, position, run_id):
            position = event.position
            yield event
        if not goes_on:
            return
        time.sleep(POLL_SECONDS)
        end_lost_runs(store, home)


def _show(stored: StoredEvent, narrator: Narrator | None) -> None:
    """Print an event. Raise ValueError where it is none."""
    if narrator is None:
        json.loads(stored.line)
        click.echo(stored.line)
        return
    event = parse_event(stored.line.encode())
    for line in narrator.tell(event):
        click.echo(f"{event.envelope.timestamp[11:19]} {line.mark} {line.text}".rstrip())
    if isinstance(event.body, Failure):
        click.echo(f"{event.envelope.timestamp[11:19]} ✗ {event.body.status}: {event.body.error.message}")
