"""Runs whose runner died: they end as `attempt_lost`, so that every run ends exactly once, also these."""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ao_protocol.errors import ErrorType
from ao_protocol.events import ErrorInfo, ExecutorIdentity, Failure
from ao_protocol.framing import MAX_EVENT_BYTES
from ao_runner.outbox.owning import leftovers_wait, places_of
from ao_runner.run_events import RunIdentity
from ao_runner.runs.conversation import Conversation
from ao_runner.runs.journal import error_type_of, status_of
from ao_runner.store.ownership import is_alive
from ao_runner.store.records import Run, timestamp
from ao_runner.store.rows import RowDamaged
from ao_runner.store.run_queue import RunState
from ao_runner.store.store import SessionUnknown, Store
from ao_runner.store.store_file import StoreBusy, StoreUnwritable, transaction


def end_lost_runs(store: Store, home: Path, now: Callable[[], str] = timestamp) -> list[str]:
    """End every run whose owner is gone, or has not kept its lease, and return their ids.

    A run that a worker had claimed and not begun goes back into the queue. While dead workers' outboxes wait for a
    worker to deliver them, or one is about it, the runs of workers are left alone: what is in there comes first. A run
    of which a row is damaged stays as it is, and so do all where the store takes no more: it can still be read.

    Raises:
        StoreBusy: another process does not let go of the store; nothing was written.
    """
    if not store.is_writable:
        return []
    with store.damage.unchanged():
        try:
            return _end(store, home, now) if _lost_runs(store, home) else []
        except StoreBusy:
            raise
        except (StoreUnwritable, sqlite3.DatabaseError):
            return []


def _end(store: Store, home: Path, now: Callable[[], str]) -> list[str]:
    ended = []
    with transaction(store.connection):
        # Found again in here, because several processes look for them, and their own workers may speak up meanwhile.
        lost = _lost_runs(store, home)
        are_workers_runs_waiting = _outboxes_wait(home)
        for state in lost:
            if not state.has_begun:
                store.queue.give_back(state.run.run_id, state.attempt)
            elif state.profile is None or not are_workers_runs_waiting:
                with suppress(RowDamaged, SessionUnknown, sqlite3.IntegrityError):
                    end_run(store, state.run, lost_after(state.last_seq), now)
                    ended.append(state.run.run_id)
    return ended


def _lost_runs(store: Store, home: Path) -> list[RunState]:
    expired = set(store.queue.expired())
    return [
        state
        for state in store.queue.list_states("running")
        if state.run.run_id in expired or not is_alive(home, state.owner)
    ]


def lost_after(last_seq: int) -> Failure:
    """Return the end of a run whose runner died; `last_seq` is the last event that was durable then (AOX-261)."""
    return Failure(
        status="failed",
        error=ErrorInfo(
            type=ErrorType.ATTEMPT_LOST,
            message="the runner exited before the run ended; the executor may have done more after the last event",
            retryable=True,
            side_effects="possible",
            origin="runner",
            details={"last_seq": last_seq},
        ),
    )


def end_run(store: Store, run: Run, failure: Failure, now: Callable[[], str] = timestamp) -> None:
    """End a run in the runner's name, behind the events that are kept of it."""
    session = store.find_session(run.session_id)
    identity = RunIdentity(run.run_id, run.session_id, ExecutorIdentity(name=session.executor_name, version="unknown"))
    conversation = Conversation(identity, MAX_EVENT_BYTES, now)
    for event in store.list_events(run.session_id, run_id=run.run_id):
        list(conversation.receive(event.line.encode() + b"\n"))
    missing = list(conversation.conclude(failure))
    if missing:
        store.add_events(run.run_id, missing[0].seq, [item.line for item in missing])
    terminal = conversation.terminal or failure
    store.end_run(run.run_id, status_of(terminal), now(), error_type_of(terminal))


def _outboxes_wait(home: Path) -> bool:
    return leftovers_wait(places_of(home, "local"))


def is_orphaned(state: RunState, home: Path) -> bool:
    """Tell whether a running run waits for somebody to take over what its worker has left."""
    return state.run.status == "running" and not is_alive(home, state.owner)
