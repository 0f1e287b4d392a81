"""Runs whose runner died: they end as `attempt_lost`, so that every run ends exactly once, also these."""

from collections.abc import Callable
from pathlib import Path

from ao_protocol.errors import ErrorType
from ao_protocol.events import ErrorInfo, ExecutorIdentity, Failure
from ao_protocol.framing import MAX_EVENT_BYTES
from ao_runner.conversation import Conversation, RunIdentity
from ao_runner.journal import error_type_of, status_of, timestamp
from ao_runner.ownership import is_alive
from ao_runner.records import Run
from ao_runner.store import Store

LOST = Failure(
    status="failed",
    error=ErrorInfo(
        type=ErrorType.ATTEMPT_LOST,
        message="the runner ended before the run did; what the executor did after the last event is not known",
        retryable=True,
        side_effects="possible",
        origin="runner",
    ),
)


def end_lost_runs(store: Store, home: Path, now: Callable[[], str] = timestamp) -> list[str]:
    """End every run whose owner is gone and return their ids."""
    lost = [run for run, owner in store.running_runs() if not is_alive(home, owner)]
    for run in lost:
        _end(store, run, now)
    return [run.run_id for run in lost]


def _end(store: Store, run: Run, now: Callable[[], str]) -> None:
    session = store.find_session(run.session_id)
    identity = RunIdentity(run.run_id, run.session_id, ExecutorIdentity(name=session.executor_name, version="unknown"))
    conversation = Conversation(identity, MAX_EVENT_BYTES, now)
    kept = [event.line for event in store.list_events(run.session_id) if event.run_id == run.run_id]
    for line in kept:
        list(conversation.receive(line.encode() + b"\n"))
    missing = list(conversation.conclude(LOST))
    if missing:
        store.add_events(run.run_id, missing[0].event.envelope.seq, [item.line for item in missing])
    terminal = conversation.terminal or LOST
    store.end_run(run.run_id, status_of(terminal), now(), error_type_of(terminal))
