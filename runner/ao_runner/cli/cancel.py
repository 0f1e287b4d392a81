"""`ao cancel`: stop a run that waits, or that a worker performs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from ao_protocol.errors import ErrorType
from ao_protocol.events import ErrorInfo, Failure
from ao_runner.cli.options import examples, home_option
from ao_runner.errors import RunnerError
from ao_runner.home import default_home
from ao_runner.runs.lost_runs import end_lost_runs, end_run
from ao_runner.store.ownership import notify
from ao_runner.store.records import OPEN_STATUSES
from ao_runner.store.rows import RowDamaged
from ao_runner.store.run_queue import RunState
from ao_runner.store.store import LAST, SessionUnknown, Store
from ao_runner.store.store_file import transaction

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


def _complete_run(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    try:
        with Store(ctx.params.get("home") or default_home()) as store:
            states = store.queue.list_states(*OPEN_STATUSES)
    except RunnerError:
        return []
    return [
        CompletionItem(state.run.run_id, help=state.run.status)
        for state in states
        if state.run.run_id.startswith(incomplete)
    ]


@click.command(
    "cancel",
    epilog=examples(
        "ao cancel run_4c5ab0",
        "ao cancel last",
        "ao runs --status queued --json | jq -r '.[].run_id' | xargs ao cancel",
    )
    + "\n\n\b\nExit codes: 0 all were cancelled or asked to stop, 2 some could not be cancelled.",
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=_complete_run)
@home_option
def command(runs: tuple[str, ...], home: Path) -> None:
    """Cancel each RUN: an id, the beginning of one, or `last`: the newest run. Of a session, cancel its open run.

    A queued run ends at once. A running one is asked to stop; cancelled again, it is killed.
    """
    refused = []
    with Store(home) as store:
        end_lost_runs(store, home)
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
    with transaction(store.connection):
        status = store.queue.want_stop(state.run.run_id)
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
    (state,) = store.queue.find_states(run_id)
    return state
