"""`ao sessions`: what was kept."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from ao_runner.cli.damage import leave_if_damaged
from ao_runner.cli.narration import shorten
from ao_runner.cli.options import examples, home_option, json_option
from ao_runner.cli.profile_path import short_name
from ao_runner.cli.tables import print_table
from ao_runner.store.records import Run, Session
from ao_runner.store.recovery import end_lost_runs
from ao_runner.store.store import Store


@click.command(
    "sessions", epilog=examples("ao sessions", "ao sessions --all", "ao sessions --json | jq -r .[0].session_id")
)
@click.option("--all", "show_all", is_flag=True, help="List all, not only the newest twenty.")
@json_option("Print all sessions as JSON, with all fields.")
@home_option
def command(show_all: bool, as_json: bool, home: Path) -> None:
    """List the stored sessions, first the one with the newest run."""
    with Store(home) as store:
        end_lost_runs(store, home)
        sessions = [(session, store.list_runs(session.session_id)) for session in store.list_sessions()]
    if as_json:
        click.echo(json.dumps([_document(session, runs) for session, runs in sessions], ensure_ascii=False))
    elif sessions or not store.damage:
        _show(sessions, show_all=show_all)
    leave_if_damaged(store.damage)


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
