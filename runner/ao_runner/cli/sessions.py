"""`ao sessions` and `ao events`: what is stored, and how it is deleted."""

import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click

from ao_protocol.events import Failure, parse_event
from ao_runner.cli.options import (
    Command,
    all_option,
    chosen_home,
    complete_session,
    examples,
    home_option,
    json_option,
    session_argument,
    short_name,
)
from ao_runner.cli.printing import (
    MOST_SHOWN,
    counted,
    leave_if_damaged,
    print_document,
    print_table,
    short_time,
    shorten,
    show_newest,
)
from ao_runner.cli.run_progress import Narrator
from ao_runner.cli.runs import prompt_of
from ao_runner.runs.lost_runs import fail_lost_runs
from ao_runner.store.records import OPEN_STATUSES, DeletableSession, RowDamaged, Run, Session, StoredEvent
from ao_runner.store.store import Store

POLL_SECONDS: Final = 0.2
DURATION_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


@click.group(
    "sessions",
    invoke_without_command=True,
    epilog=examples(
        "ao sessions",
        "ao sessions --all",
        "ao sessions --json | jq -r .[0].session_id",
        "ao sessions delete last",
        "ao sessions prune --older-than 30d --dry-run",
    ),
)
@all_option
@json_option("Print all sessions as JSON, with all fields.")
@home_option
@click.pass_context
def sessions_command(ctx: click.Context, show_all: bool, as_json: bool, home: Path) -> None:
    """List the stored sessions, first the one with the newest run, or delete some."""
    ctx.obj = home
    if ctx.invoked_subcommand is not None:
        return
    with Store(home) as store:
        fail_lost_runs(store)
        sessions = [(session, store.list_runs(session.session_id)) for session in store.list_sessions()]
    if as_json:
        print_document([{**asdict(session), "runs": [asdict(run) for run in runs]} for session, runs in sessions])
    elif sessions or not store.damage:
        _show(sessions, show_all=show_all)
    leave_if_damaged(store.damage)


def _deletion_options(command: Command) -> Command:
    for decorate in (
        home_option,
        json_option("Print the deleted sessions as a JSON list."),
        click.option("--dry-run", is_flag=True, help="Print what would be deleted, and delete nothing."),
    ):
        command = decorate(command)
    return command


@sessions_command.command(
    "delete",
    short_help="Delete sessions with their runs, events and results.",
    epilog=examples("ao sessions delete ses_4c5ab0", "ao sessions delete last --dry-run")
    + "\n\n\b\nExit codes: 0 deleted, 2 nothing deleted: an unknown id, or a run is queued or running.",
)
@click.argument("session_ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_session)
@_deletion_options
@click.pass_context
def delete(ctx: click.Context, session_ids: tuple[str, ...], dry_run: bool, as_json: bool, home: Path) -> None:
    """Delete sessions with all their runs, events and results from the store.

    ID is the id of a session or of one of its runs, the beginning of one, or `last`. If a run of one of the sessions
    is queued or running, nothing is deleted.
    """
    home = chosen_home(ctx, home)
    with Store(home) as store:
        fail_lost_runs(store)
        resolved = [store.resolve(wanted)[0] for wanted in session_ids]
        deleted = store.delete_sessions(resolved, dry_run=dry_run)
    _show_deleted(deleted, dry_run=dry_run, as_json=as_json)


@sessions_command.command(
    "prune",
    short_help="Delete sessions that are older than a duration.",
    epilog=examples("ao sessions prune --older-than 30d --dry-run", "ao sessions prune --older-than 12h --json"),
)
@click.option(
    "--older-than",
    callback=lambda _ctx, _parameter, text: _duration(text),
    required=True,
    metavar="DURATION",
    help="Time since the last run of the session began or ended: 30d, 12h, 45m.",
)
@_deletion_options
@click.pass_context
def prune(ctx: click.Context, older_than: timedelta, dry_run: bool, as_json: bool, home: Path) -> None:
    """Delete old sessions with all their runs, events and results from the store.

    Sessions with a queued or running run stay.
    """
    home = chosen_home(ctx, home)
    with Store(home) as store:
        fail_lost_runs(store)
        deleted = store.prune_sessions(datetime.now(UTC) - older_than, dry_run=dry_run)
    _show_deleted(deleted, dry_run=dry_run, as_json=as_json)


def _duration(text: str) -> timedelta:
    """Read digits and a unit, such as `30d`, `12h` or `45m`."""
    found = re.fullmatch(r"([0-9]{1,5})([mhd])", text)
    if found is None:
        raise click.BadParameter(f"{text!r}; expected a number below 100000 with d, h or m: 30d, 12h, 45m")
    return timedelta(**{DURATION_UNITS[found[2]]: int(found[1])})


def _show_deleted(sessions: Sequence[DeletableSession], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_document([asdict(session) for session in sessions])
        return
    if sessions:
        rows = [
            [one.session_id, shorten(one.agent_name, 30), str(one.runs), short_time(one.last_activity)]
            for one in sessions
        ]
        print_table(["SESSION", "AGENT", "RUNS", "LAST ACTIVITY"], rows)
    word = "would be deleted" if dry_run else "deleted"
    click.echo(f"{counted(len(sessions), 'session')} {word}", err=True)


def _show(sessions: list[tuple[Session, list[Run]]], *, show_all: bool) -> None:
    if not sessions:
        click.echo('no sessions yet; start one: ao run BLUEPRINT -p "…"', err=True)
        return
    shown = sessions if show_all else sessions[:MOST_SHOWN]
    header = ["SESSION", "NEWEST", "AGENT", "EXECUTOR", "RUNS", "LAST", "BEGAN", "PROMPT"]
    rows = [_row(session, runs) for session, runs in shown]
    print_table(
        header,
        rows,
        whole=("NEWEST", "BEGAN"),
        expendable=("NEWEST", "EXECUTOR", "RUNS", "BEGAN", "PROMPT", "LAST", "AGENT"),
    )
    show_newest(len(sessions), len(shown), "ao sessions")


def _row(session: Session, runs: list[Run]) -> list[str]:
    last = runs[-1] if runs else None
    status = "" if last is None else last.status if last.error_type is None else f"{last.status}: {last.error_type}"
    return [
        session.session_id,
        "" if last is None else last.run_id,
        shorten(session.agent_name, 30),
        shorten(short_name(session.executor_name), 24),
        str(len(runs)),
        status,
        short_time(session.created_at),
        prompt_of(runs[0]) if runs else "",
    ]


@click.command(
    "events",
    epilog=examples("ao events last", "ao events ses_4c5ab0 --follow", "ao events last --run run_01 | jq .event_type"),
)
@session_argument
@click.option("-f", "--follow", is_flag=True, help="Wait for new events until the run ends.")
@click.option("--run", "run_id", help="Print only the events of this run: an id, the beginning of one, or `last`.")
@click.option("--text", is_flag=True, help="Print readable lines instead of JSON.")
@home_option
def events_command(session: str, follow: bool, run_id: str | None, text: bool, home: Path) -> None:
    """Print the events of all runs of SESSION in order, one JSON line each; of a run, if SESSION is the id of one."""
    with Store(home) as store:
        fail_lost_runs(store)
        session_id, own_run = store.resolve(session)
        run_id = own_run if run_id is None else store.find_run_id(session_id, run_id)
        narrator = Narrator() if text else None
        for event in _events(store, home, session_id, run_id, follow=follow):
            try:
                _show_event(event, narrator)
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
        fail_lost_runs(store)


def _show_event(stored: StoredEvent, narrator: Narrator | None) -> None:
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
