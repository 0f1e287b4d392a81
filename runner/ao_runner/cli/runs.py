"""`ao runs`: what waits, what runs, what has ended."""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final, get_args

import click

from ao_runner.cli.damage import leave_if_damaged
from ao_runner.cli.narration import shorten
from ao_runner.cli.options import examples, home_option, json_option
from ao_runner.cli.profile_path import short_name
from ao_runner.cli.tables import print_table
from ao_runner.runs.lost_runs import end_lost_runs, is_orphaned
from ao_runner.store.ownership import living_owners
from ao_runner.store.records import RunStatus, seconds_since
from ao_runner.store.run_queue import RunState
from ao_runner.store.store import Store

SHOWN: Final = 20


@click.command(
    "runs",
    epilog=examples(
        "ao runs",
        "ao runs --status queued --status running",
        "ao runs --status failed --json | jq -r '.[] | [.run_id, .error_type] | @tsv'",
        "ao runs --status queued --json | jq -r '.[].run_id' | xargs ao cancel",
    ),
)
@click.option(
    "--status",
    "statuses",
    type=click.Choice(get_args(RunStatus)),
    multiple=True,
    help="List only runs with this status. Repeatable.",
)
@click.option("--all", "show_all", is_flag=True, help="List all, not only the newest twenty.")
@json_option("Print all runs as JSON, with all fields.")
@home_option
def command(statuses: tuple[RunStatus, ...], show_all: bool, as_json: bool, home: Path) -> None:
    """List the runs of this host, newest first: queued, running and ended."""
    with Store(home) as store:
        end_lost_runs(store, home)
        states = store.queue.list_states(*statuses)[::-1]
        names = {session.session_id: session.agent_name for session in store.list_sessions()}
    if as_json:
        click.echo(json.dumps([document_of(state, names) for state in states], ensure_ascii=False))
    elif states or not store.damage:
        _show(states, statuses, names, home, show_all=show_all)
    leave_if_damaged(store.damage)


def _show(
    states: list[RunState], statuses: tuple[RunStatus, ...], names: dict[str, str], home: Path, *, show_all: bool
) -> None:
    if not states:
        are = f"no run is {' or '.join(statuses)}" if statuses else "no runs yet"
        click.echo(f'{are}; add one to the queue: ao submit BLUEPRINT -p "…"', err=True)
        return
    shown = states if show_all else states[:SHOWN]
    header = ["RUN", "SESSION", "AGENT", "PROFILE", "STATUS", "EVENTS", "SINCE", "PROMPT"]
    rows = [_row(state, names, home) for state in shown]
    print_table(
        header,
        rows,
        whole=("SESSION",),
        expendable=("SESSION", "PROFILE", "EVENTS", "PROMPT", "SINCE", "AGENT", "STATUS"),
    )
    if len(shown) < len(states):
        click.echo(f"… and {len(states) - len(shown)} older ones: ao runs --all", err=True)
    if idle := waiting_in_vain(home, {state.profile or "" for state in states if state.run.status == "queued"}):
        click.echo(idle, err=True)


def document_of(state: RunState, names: Mapping[str, str]) -> dict[str, object]:
    """Return a run as JSON holds it; `names` says what the agent of which session is called."""
    others = asdict(state)
    return {**others.pop("run"), "agent_name": names.get(state.run.session_id, ""), **others}


def waiting_in_vain(home: Path, profiles: Collection[str]) -> str | None:
    """Return what to do where runs wait for these profiles and no worker serves one; None where all are served."""
    owners = [owner for owner in living_owners(home).values() if owner.serves]
    unserved = sorted(name for name in profiles if not any(owner.takes(name) for owner in owners))
    if not unserved:
        return None
    if not owners:
        return "no worker is running to perform queued runs; start one: ao worker"
    return f"no worker serves {', '.join(unserved)}; start one: ao worker --profile {unserved[0]}"


def status_of_state(state: RunState, home: Path) -> str:
    """Return how a run stands, in a few words."""
    run = state.run
    if is_orphaned(state, home):
        return "worker is gone"
    if run.status == "running" and state.stop_wanted:
        return "stopping"
    return run.status if run.error_type in {None, run.status} else f"{run.status}: {run.error_type}"


def elapsed_of(state: RunState) -> str:
    """Return for how long a run has been what it is."""
    return time_since(state.run.ended_at or state.run.started_at)


def time_since(timestamp: str) -> str:
    """Return how long ago that was, in its largest unit; `?` for what is no time."""
    try:
        return duration_in_words(seconds_since(timestamp))
    except (TypeError, ValueError):
        return "?"


def duration_in_words(seconds: float) -> str:
    """Return a time in its largest unit."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds) // size} {unit}"
    return f"{int(seconds)} s"


def _row(state: RunState, names: dict[str, str], home: Path) -> list[str]:
    run = state.run
    prompt = str(run.parameters.get("prompt") or json.dumps(run.parameters, ensure_ascii=False))
    return [
        run.run_id,
        run.session_id,
        shorten(names.get(run.session_id, ""), 24),
        short_name(state.profile or "-"),
        status_of_state(state, home),
        str(state.last_seq),
        elapsed_of(state),
        shorten(prompt, 40),
    ]
