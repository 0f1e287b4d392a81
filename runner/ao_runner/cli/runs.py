"""`ao runs`: what waits, what runs, what has ended."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from ao_runner.cli.narration import shorten
from ao_runner.cli.options import examples, home_option, json_option
from ao_runner.cli.tables import print_table
from ao_runner.journal import seconds_since
from ao_runner.recovery import end_lost_runs, is_orphaned
from ao_runner.run_queue import RunState
from ao_runner.store import Store

SHOWN: Final = 20


@click.command(
    "runs", epilog=examples("ao runs", "ao runs --all", "ao runs --json | jq 'map(select(.status == \"queued\"))'")
)
@click.option("--all", "show_all", is_flag=True, help="Also those behind the newest twenty.")
@json_option("Print a JSON list, everything in it.")
@home_option
def command(show_all: bool, as_json: bool, home: Path) -> None:
    """List the runs of this host, the newest first."""
    with Store(home) as store:
        end_lost_runs(store, home)
        states = store.queue.list_states()[::-1]
        names = {session.session_id: session.agent_name for session in store.list_sessions()}
    if as_json:
        click.echo(json.dumps([document_of(state) for state in states], ensure_ascii=False))
        return
    if not states:
        click.echo('no runs yet; put one into the queue: ao submit BLUEPRINT -p "…"', err=True)
        return
    shown = states if show_all else states[:SHOWN]
    header = ["RUN", "AGENT", "PROFILE", "STATUS", "EVENTS", "SINCE", "PROMPT"]
    print_table(header, [_row(state, names, home) for state in shown])
    if len(shown) < len(states):
        click.echo(f"… and {len(states) - len(shown)} older ones: ao runs --all", err=True)
    if any(state.run.status == "queued" for state in states) and not any(
        _is_performed(state, home) for state in states
    ):
        click.echo("runs wait and nothing runs; a worker performs them: ao worker", err=True)


def document_of(state: RunState) -> dict[str, object]:
    """Return a run as JSON holds it."""
    others = asdict(state)
    return {**others.pop("run"), **others}


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
    seconds = int(seconds_since(state.run.ended_at or state.run.started_at))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _row(state: RunState, names: dict[str, str], home: Path) -> list[str]:
    run = state.run
    prompt = str(run.parameters.get("prompt") or json.dumps(run.parameters, ensure_ascii=False))
    return [
        run.run_id,
        shorten(names.get(run.session_id, ""), 24),
        state.profile or "-",
        status_of_state(state, home),
        str(state.last_seq),
        elapsed_of(state),
        shorten(prompt, 40),
    ]


def _is_performed(state: RunState, home: Path) -> bool:
    return state.run.status == "running" and not is_orphaned(state, home)
