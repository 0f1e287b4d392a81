"""`ao sessions`: what was kept, and how it is deleted."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from ao_runner.cli.damage import leave_if_damaged
from ao_runner.cli.narration import shorten
from ao_runner.cli.options import complete_session, examples, home_option, json_option
from ao_runner.cli.profile_path import short_name
from ao_runner.cli.tables import print_table
from ao_runner.runs.lost_runs import end_lost_runs
from ao_runner.store.records import Run, Session
from ao_runner.store.store import DeletableSession, Store, delete_sessions, prune_sessions

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
@click.option("--all", "show_all", is_flag=True, help="List all, not only the newest twenty.")
@json_option("Print all sessions as JSON, with all fields.")
@home_option
@click.pass_context
def command(ctx: click.Context, show_all: bool, as_json: bool, home: Path) -> None:
    """List the stored sessions, first the one with the newest run, or delete some."""
    ctx.obj = home
    if ctx.invoked_subcommand is not None:
        return
    with Store(home) as store:
        end_lost_runs(store, home)
        sessions = [(session, store.list_runs(session.session_id)) for session in store.list_sessions()]
    if as_json:
        click.echo(json.dumps([_document(session, runs) for session, runs in sessions], ensure_ascii=False))
    elif sessions or not store.damage:
        _show(sessions, show_all=show_all)
    leave_if_damaged(store.damage)


@command.command(
    "delete",
    short_help="Delete sessions with their runs, events and results.",
    epilog=examples("ao sessions delete ses_4c5ab0", "ao sessions delete last --dry-run")
    + "\n\n\b\nExit codes: 0 deleted, 2 nothing deleted: an unknown id, or a run is queued or running.",
)
@click.argument("session_ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_session)
@click.option("--dry-run", is_flag=True, help="Print what would be deleted, and delete nothing.")
@json_option("Print the deleted sessions as a JSON list.")
@home_option
@click.pass_context
def delete(ctx: click.Context, session_ids: tuple[str, ...], dry_run: bool, as_json: bool, home: Path) -> None:
    """Delete sessions with all their runs, events and results from the store.

    ID is the id of a session or of one of its runs, the beginning of one, or `last`. If a run of one of the sessions
    is queued or running, nothing is deleted.
    """
    home = _chosen_home(ctx, home)
    with Store(home) as store:
        end_lost_runs(store, home)
        resolved = [store.resolve(wanted)[0] for wanted in session_ids]
        deleted = delete_sessions(store, resolved, dry_run=dry_run)
    _show_deleted(deleted, dry_run=dry_run, as_json=as_json)


@command.command(
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
@click.option("--dry-run", is_flag=True, help="Print what would be deleted, and delete nothing.")
@json_option("Print the deleted sessions as a JSON list.")
@home_option
@click.pass_context
def prune(ctx: click.Context, older_than: timedelta, dry_run: bool, as_json: bool, home: Path) -> None:
    """Delete old sessions with all their runs, events and results from the store.

    Sessions with a queued or running run stay.
    """
    home = _chosen_home(ctx, home)
    with Store(home) as store:
        end_lost_runs(store, home)
        deleted = prune_sessions(store, datetime.now(UTC) - older_than, dry_run=dry_run)
    _show_deleted(deleted, dry_run=dry_run, as_json=as_json)


def _duration(text: str) -> timedelta:
    """Read digits and a unit, such as `30d`, `12h` or `45m`."""
    found = re.fullmatch(r"([0-9]{1,5})([mhd])", text)
    if found is None:
        raise click.BadParameter(f"{text!r}; expected a number below 100000 with d, h or m: 30d, 12h, 45m")
    return timedelta(**{DURATION_UNITS[found[2]]: int(found[1])})


def _chosen_home(ctx: click.Context, home: Path) -> Path:
    """Return the folder that `--home` names behind the subcommand, else the one before it."""
    is_said_here = ctx.get_parameter_source("home") is ParameterSource.COMMANDLINE
    return home if is_said_here or ctx.obj is None else ctx.obj


def _show_deleted(sessions: Sequence[DeletableSession], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([asdict(session) for session in sessions], ensure_ascii=False))
        return
    if sessions:
        rows = [
            [one.session_id, shorten(one.agent_name, 30), str(one.runs), one.last_activity[:16].replace("T", " ")]
            for one in sessions
        ]
        print_table(["SESSION", "AGENT", "RUNS", "LAST ACTIVITY"], rows)
    word = "would be deleted" if dry_run else "deleted"
    click.echo(f"{len(sessions)} session{'' if len(sessions) == 1 else 's'} {word}", err=True)


def _show(sessions: list[tuple[Session, list[Run]]], *, show_all: bool) -> None:
    if not sessions:
        click.echo('no sessions yet; start one: ao run BLUEPRINT -p "…"', err=True)
        return
    shown = sessions if show_all else sessions[:20]
    header = ["SESSION", "NEWEST", "AGENT", "EXECUTOR", "RUNS", "LAST", "BEGAN", "PROMPT"]
    rows = [_row(session, runs) for session, runs in shown]
    print_table(
        header,
        rows,
        whole=("NEWEST", "BEGAN"),
        expendable=("NEWEST", "EXECUTOR", "RUNS", "BEGAN", "PROMPT", "LAST", "AGENT"),
    )
    if len(shown) < len(sessions):
        click.echo(f"… and {len(sessions) - len(shown)} older ones: ao sessions --all", err=True)


def _row(session: Session, runs: list[Run]) -> list[str]:
    last = runs[-1] if runs else None
    status = "" if last is None else last.status if last.error_type is None else f"{last.status}: {last.error_type}"
    prompt = str(runs[0].parameters.get("prompt") or json.dumps(runs[0].parameters, ensure_ascii=False)) if runs else ""
    began = session.created_at[:16].replace("T", " ")
    return [
        session.session_id,
        "" if last is None else last.run_id,
        shorten(session.agent_name, 30),
        shorten(short_name(session.executor_name), 24),
        str(len(runs)),
        status,
        began,
        shorten(prompt, 40),
    ]


def _document(session: Session, runs: list[Run]) -> dict[str, object]:
    return {**asdict(session), "runs": [asdict(run) for run in runs]}
