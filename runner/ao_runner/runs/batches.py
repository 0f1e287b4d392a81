"""A batch: runs that were submitted together, how they have ended, and what of them has to run again."""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from ao_protocol.errors import ExitCode
from ao_protocol.events import Result, Terminal
from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError
from ao_runner.runs.outcome import exit_code_of, terminal_in
from ao_runner.store.records import Run, RunState
from ao_runner.store.store import Store
from ao_runner.store.store_errors import BatchUnknown

ROWS_AT_ONCE: Final = 100
"""Maximum number of terminal events in memory at a time."""


def find_batch(store: Store, wanted: str) -> str:
    """Return the batch for an id, the beginning of one, or `last`.

    Raises:
        BatchUnknown: There is none, or more than one.
    """
    found = store.runs.find_batches(wanted)
    if len(found) != 1:
        raise BatchUnknown(wanted, found)
    return found[0]


def runs_of_batch(store: Store, batch_id: str) -> list[tuple[int, RunState]]:
    """Return the runs of a batch with their places in it, from 1. A run that repeats another one takes its place."""
    states = store.runs.select("batch_id = ?", batch_id)
    places: dict[str, int] = {}
    last = 0
    for state in states:
        place = places.get(state.run.succeeds or "", last + 1)
        places[state.run.run_id], last = place, max(place, last)
    repeated = {state.run.succeeds for state in states}
    current = [(places[one.run.run_id], one) for one in states if one.run.run_id not in repeated]
    return sorted(current, key=lambda placed: placed[0])


def terminals_of(store: Store, run_ids: Collection[str]) -> dict[str, Terminal]:
    """Return the terminal events of runs by run. Those that have not ended, or whose events were pruned, are absent."""
    found = {run_id: terminal_in(line) for run_id, line in store.events.last_lines(run_ids).items() if line}
    for run_id in [run_id for run_id, terminal in found.items() if terminal is None]:
        found[run_id] = terminal_in(store.events.last_line(run_id) or "")  # a long one, of which the end was read
    return {run_id: terminal for run_id, terminal in found.items() if terminal is not None}


def results_of(store: Store, batch_id: str) -> Iterator[JsonObject]:
    """Yield a row of results for each run of a batch, in its order, also of those that have not ended."""
    placed = runs_of_batch(store, batch_id)
    for first in range(0, len(placed), ROWS_AT_ONCE):
        some = placed[first : first + ROWS_AT_ONCE]
        ended = [state.run.run_id for _, state in some if state.run.ended_at is not None]
        terminals, usage = terminals_of(store, ended), store.figures.usage_of(ended)
        for place, state in some:
            used = usage.get(state.run.run_id)
            cost = None if used is None else used.cost_usd
            yield result_row(place, state.run, terminals.get(state.run.run_id), cost)


def result_row(place: int, run: Run, terminal: Terminal | None, cost_usd: float | None) -> JsonObject:
    """Return what a run has come to; `place` is its place in the batch. What is not known is null."""
    seconds, answer, error = None, None, None
    if run.ended_at is not None:
        took = datetime.fromisoformat(run.ended_at) - datetime.fromisoformat(run.started_at)
        seconds = max(0.0, round(took.total_seconds(), 3))
    if isinstance(terminal, Result):
        answer = terminal.result_data if terminal.result_text is None else terminal.result_text
    elif terminal is not None:
        error = terminal.error.message
    labels: dict[str, JsonValue] = dict(run.labels)
    return {
        "place": place,
        "run_id": run.run_id,
        "session_id": run.session_id,
        "status": run.status,
        "error_type": run.error_type,
        "error_message": error,
        "answer": answer,
        "cost_usd": cost_usd,
        "seconds": seconds,
        "parameters": run.parameters,
        "labels": labels,
    }


def worst_exit_code(store: Store, batch_id: str) -> int:
    """Return the highest exit code of the runs of a batch that have ended; 1 for failed runs without their events."""
    failed = [state.run.run_id for _, state in runs_of_batch(store, batch_id) if state.run.error_type is not None]
    codes = map(exit_code_of, terminals_of(store, failed).values())
    return int(max(codes, default=ExitCode.FAILURE if failed else ExitCode.RESULT))


class NothingToRepeat(RunnerError):
    """A batch has no failed run that can run again."""


def failed_runs(store: Store, batch_id: str) -> list[Run]:
    """Return the failed runs of a batch that can run again: no other one repeats them, and they wait for no person.

    Raises:
        NothingToRepeat: There is none, or a real model would answer in place of a script.
    """
    parked = {one.run_id for one in store.inputs.waiting()}
    runs = [state.run for state in store.runs.failed_in_batch(batch_id) if state.run.run_id not in parked]
    if not runs:
        raise NothingToRepeat(f"no run of {batch_id} has failed; nothing was submitted")
    sessions = store.sessions.by_id({run.session_id for run in runs})
    for run in runs:
        if run.model_script is None and run.session_id in sessions and sessions[run.session_id].is_simulated:
            advice = "submit the batch again with `ao submit --batch FILE --model-script SCRIPT`"
            raise NothingToRepeat(
                f"{run.run_id} had a model script, which is not stored, in place of a model; {advice}"
            )
    return runs
