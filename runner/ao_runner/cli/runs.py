"""`ao runs` and `ao cancel`: what waits, what runs, what has ended, and how it is stopped."""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, get_args

import click

from ao_protocol.errors import ErrorType
from ao_protocol.events import ErrorInfo, Failure
from ao_runner.cli.options import all_option, complete_open_run, examples, home_option, json_option, short_name
from ao_runner.cli.printing import MOST_SHOWN, leave_if_damaged, print_document, print_table, shorten, show_newest
from ao_runner.errors import RunnerError
from ao_runner.runs.lost_runs import end_run, fail_lost_runs, is_orphaned
from ao_runner.store.ownership import living_owners, notify
from ao_runner.store.records import (
    LAST,
    OPEN_STATUSES,
    RowDamaged,
    Run,
    RunState,
    RunStatus,
    SessionUnknown,
    seconds_since,
)
from ao_runner.store.store import Store


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
@all_option
@json_option("Print all runs as JSON, with all fields.")
@home_option
def runs_command(statuses: tuple[RunStatus, ...], show_all: bool, as_json: bool, home: Path) -> None:
    """List the runs of this host, newest first: queued, running and ended."""
    with Store(home) as store:
        fail_lost_runs(store)
        states = store.list_states(*statuses)[::-1]
        names = {session.session_id: session.agent_name for session in store.list_sessions()}
    if as_json:
        print_document([_document(state, names) for state in states])
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
    shown = states if show_all else states[:MOST_SHOWN]
    header = ["RUN", "SESSION", "AGENT", "PROFILE", "STATUS", "EVENTS", "SINCE", "PROMPT"]
    rows = [_row(state, names, home) for state in shown]
    print_table(
        header,
        rows,
        whole=("SESSION",),
        expendable=("SESSION", "PROFILE", "EVENTS", "PROMPT", "SINCE", "AGENT", "STATUS"),
    )
    show_newest(len(states), len(shown), "ao runs")
    if idle := waiting_in_vain(home, {state.profile or "" for state in states if state.run.status == "queued"}):
        click.echo(idle, err=True)


def _document(state: RunState, names: Mapping[str, str]) -> dict[str, object]:
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


def _status(state: RunState, home: Path) -> str:
    """Return how a run stands, in a few words."""
    run = state.run
    if is_orphaned(state, home):
        return "worker is gone"
    if run.status == "running" and state.stop_wanted:
        return "stopping"
    return run.status if run.error_type in {None, run.status} else f"{run.status}: {run.error_type}"


def time_since(timestamp: str) -> str:
    """Return how long ago that was, in its largest unit; `?` for what is no time."""
    try:
        return _duration_in_words(seconds_since(timestamp))
    except (TypeError, ValueError):
        return "?"


def _duration_in_words(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds) // size} {unit}"
    return f"{int(seconds)} s"


def prompt_of(run: Run) -> str:
    """Return the beginning of a run's prompt, or of its parameters."""
    return shorten(str(run.parameters.get("prompt") or json.dumps(run.parameters, ensure_ascii=False)), 40)


def _row(state: RunState, names: dict[str, str], home: Path) -> list[str]:
    run = state.run
    return [
        run.run_id,
        run.session_id,
        shorten(names.get(run.session_id, ""), 24),
        short_name(state.profile or "-"),
        _status(state, home),
        str(state.last_seq),
        time_since(run.ended_at or run.started_at),
        prompt_of(run),
    ]


CANCELLED_IN_THE_QUEUE: Final = Failure(
    status="cancelled",
    error=ErrorInfo(
        type=ErrorType.CANCELLED,
        message="cancelled before a worker started it",
        retryable=False,
        side_effects="none",
        origin="caller",
    ),
)


@dataclass(eq=False)
class NothingToCancel(RunnerError):
    """There is no such run, or it cannot be cancelled from here."""

    sentence: str

    def __str__(self) -> str:
        return self.sentence


@click.command(
    "cancel",
    epilog=examples(
        "ao cancel run_4c5ab0",
        "ao cancel last",
        "ao runs --status queued --json | jq -r '.[].run_id' | xargs ao cancel",
    )
    + "\n\n\b\nExit codes: 0 all were cancelled or asked to stop, 2 some could not be cancelled.",
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_open_run)
@home_option
def cancel_command(runs: tuple[str, ...], home: Path) -> None:
    """Cancel each RUN: an id, the beginning of one, or `last`: the newest run. Of a session, cancel its open run.

    A queued run ends at once. A running one is asked to stop; cancelled again, it is killed.
    """
    refused = []
    with Store(home) as store:
        fail_lost_runs(store)
        for run in runs:
            try:
                click.echo(_cancel(store, home, run), err=True)
            except (NothingToCancel, RowDamaged) as error:
                refused.append(str(error))
    if refused:
        raise NothingToCancel("\n".join(refused))


def _cancel(store: Store, home: Path, wanted: str) -> str:
    """Cancel one run and return what came of it, in a sentence.

    Raises:
        NothingToCancel: it is over, is not there, or somebody else has to do it.
    """
    state = _find(store, wanted)
    if state.profile is None and state.run.status == "running":
        raise NothingToCancel(f"{state.run.run_id} was started by `ao run` or `ao resume`; press Ctrl-C there")
    with store.transaction():
        status = store.request_stop(state.run.run_id)
        if status == "queued":
            end_run(store, state.run, CANCELLED_IN_THE_QUEUE)
    if status == "queued":
        return f"{state.run.run_id} cancelled; no worker had started it"
    if status == "running":
        notify(home)
        again = "will be killed" if state.stop_wanted else "was asked to stop; cancel it again to kill it"
        return f"{state.run.run_id} {again}. Show its result: ao result {state.run.session_id}"
    raise NothingToCancel(
        f"{state.run.run_id} has already ended: {status}; `ao result {state.run.session_id}` shows it"
    )


def _find(store: Store, wanted: str) -> RunState:
    try:
        session_id, run_id = store.resolve(wanted)
    except SessionUnknown as error:
        raise NothingToCancel(str(error)) from error
    if wanted == LAST:
        run_id = store.find_run_id(session_id, LAST)
    if run_id is None:
        is_open = [run.run_id for run in store.list_runs(session_id) if run.status in OPEN_STATUSES]
        if not is_open:
            raise NothingToCancel(
                f"session {session_id} has no run that has not ended; `ao result {session_id}` shows it"
            )
        run_id = is_open[0]
    (state,) = store.find_states(run_id)
    return state
