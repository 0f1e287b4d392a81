"""End runs whose runner died as `attempt_lost`, so that every run ends exactly once."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final, Self

from ao_protocol.errors import ErrorType
from ao_protocol.events import (
    Body,
    ErrorInfo,
    Failure,
    InputResolved,
    RunStarted,
    Terminal,
    ToolFinished,
)
from ao_protocol.lifecycle import CALL_EVENTS, note_calls
from ao_protocol.raw_events import events_of_types
from ao_protocol.version import CURRENT
from ao_protocol.wire import ExecutorIdentity, JsonObject
from ao_runner.run_events import Relayed, RunIdentity, as_event_of
from ao_runner.runs.outcome import failed, terminal_in
from ao_runner.runs.projection import project_end, project_lines
from ao_runner.store.opening import StorePlace
from ao_runner.store.records import Run, RunState, RunStatus, timestamp
from ao_runner.store.store import Store
from ao_runner.store.store_errors import (
    RowConflict,
    RowDamaged,
    SessionUnknown,
    StoreBusy,
    StoreDamaged,
    StoreUnwritable,
)

EVENTS_AT_ONCE: Final = 1000
"""Maximum number of events of a lost run in memory at a time."""
MOST_UNBEGUN_ATTEMPTS: Final = 5
"""Number of the attempt after which a run that did not begin is not queued again: it may be what ends its workers."""

_SUMMED_UP: Final = CALL_EVENTS | {"run_started"}
_BEGINNING: Final = frozenset({"run_started", "tool_started", "input_requested"})


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The identity of a run, its open tool calls and its open requests after some event."""

    session_id: str = ""
    executor_name: str = "unknown"
    executor_version: str = "unknown"
    open_tools: dict[str, str] = field(default_factory=dict)
    open_requests: tuple[str, ...] = ()

    @classmethod
    def from_note(cls, note: str) -> Self:
        """Return the summary in a note; an empty or damaged note gives an empty summary."""
        try:
            noted = json.loads(note) if note else {}
        except (ValueError, RecursionError):
            noted = {}
        match noted:
            case {
                "session_id": str(session_id),
                "executor_name": str(name),
                "executor_version": str(version),
                "open_tools": dict(tools),
            }:
                requests = noted.get("open_requests")
                open_requests = tuple(map(str, requests)) if isinstance(requests, list) else ()
                open_tools = {str(call): str(tool) for call, tool in tools.items()}
                return cls(session_id, name, version, open_tools, open_requests)
            case _:
                return cls()

    def to_note(self) -> str:
        """Return the summary as JSON."""
        return json.dumps(
            {
                "session_id": self.session_id,
                "executor_name": self.executor_name,
                "executor_version": self.executor_version,
                "open_tools": self.open_tools,
                **({"open_requests": self.open_requests} if self.open_requests else {}),
            }
        )

    def after(self, lines: Sequence[bytes]) -> "RunSummary":
        """Return the summary after some more events. Delivery reports a line that is not an event."""
        if not self.open_tools and not self.open_requests and not any(events_of_types(lines, _BEGINNING)):
            return self
        summary, open_tools = self, dict(self.open_tools)
        requests = dict.fromkeys(self.open_requests, True)
        for event in events_of_types(lines, _SUMMED_UP):
            note_calls(event, open_tools, requests)
            match event:
                case {"event_type": "run_started", "session_id": str(session_id), "executor": dict(executor)}:
                    name, version = str(executor.get("name")), str(executor.get("version"))
                    summary = RunSummary(session_id, name, version)
        open_requests = tuple(request for request, is_open in requests.items() if is_open)
        return replace(summary, open_tools=open_tools, open_requests=open_requests)


def fail_lost_runs(store: Store) -> list[str]:
    """End every run whose owner is gone or whose lease has expired, and return their ids.

    A run that a worker had claimed but not begun returns to the queue, see `end_lost_run`. Runs of workers stay
    unchanged while outboxes of dead workers await delivery or are being delivered, because the events there come first.
    A run with a damaged row stays as it is, and so do all runs if the store is not writable but still readable.

    Raises:
        StoreBusy: Another process holds the store; nothing was written.
    """
    if not store.is_writable:
        return []
    ended = []
    try:
        with store.damage.unchanged(), store.explaining():
            if not store.workers.lost_runs():
                return []
            with store.transaction():
                are_workers_runs_waiting = not store.waits_for_a_server and _outboxes_wait(store.home)
                # Query again in the transaction: several processes search, and their workers may respond meanwhile.
                for state in store.workers.lost_runs():
                    is_ended = not state.has_begun or state.queued_at is None or not are_workers_runs_waiting
                    if is_ended and end_lost_run(store, state):
                        ended.append(state.run.run_id)
    except StoreBusy:
        raise
    except (StoreUnwritable, StoreDamaged):
        return []
    return ended


@contextmanager
def opened_and_swept(place: StorePlace) -> Iterator[Store]:
    """Open a store, and end the lost runs in it. A `with` block closes it; raises as `StorePlace.open` does."""
    with place.open() as store:
        fail_lost_runs(store)
        yield store


def fail_stranded_runs(store: Store, gone_seconds: float) -> list[str]:
    """End every queued run whose session is on a host that has been gone for so long, and return their ids.

    Such a run never continues silently in a new session (SPEC 6.2, `session_unavailable`).
    """
    ended: list[str] = []
    if not store.is_writable or not store.workers.stranded_runs(gone_seconds):
        return ended
    with store.transaction():
        for state in store.workers.stranded_runs(gone_seconds):
            message = (
                f"session {state.run.session_id} is on host {state.host}, which has had no worker for"
                f" {gone_seconds:g} seconds; start a worker there, or begin a new session"
            )
            failure = failed(ErrorType.SESSION_UNAVAILABLE, message, origin="runner", side_effects="none")
            if _ended_if_readable(store, state.run, failure):
                ended.append(state.run.run_id)
    return ended


def end_lost_run(store: Store, state: RunState) -> bool:
    """End a run that nobody performs and return true, or return one that has not begun to the queue.

    One that has not begun in `MOST_UNBEGUN_ATTEMPTS` attempts ends, too. One with a damaged row stays as it is.
    """
    if state.has_begun:
        return _ended_if_readable(store, state.run, lost_after(state.last_seq))
    if state.attempt < MOST_UNBEGUN_ATTEMPTS:
        store.queue.give_back(state.run.run_id, state.attempt)
        return False
    message = f"the worker of attempt {state.attempt} was lost before it began the run, which is not queued again"
    details: JsonObject = {"last_seq": 0}
    failure = failed(ErrorType.ATTEMPT_LOST, message, origin="runner", side_effects="none", details=details)
    return _ended_if_readable(store, state.run, failure)


def _ended_if_readable(store: Store, run: Run, failure: Failure) -> bool:
    with suppress(RowDamaged, SessionUnknown, RowConflict):
        end_run(store, run, failure)
        return True
    return False


def lost_after(last_seq: int) -> Failure:
    """Return the end of a run whose runner died; `last_seq` is the last event that was durable then (AOX-261)."""
    message = "the runner exited before the run ended; the executor may have done more after the last event"
    return failed(ErrorType.ATTEMPT_LOST, message, origin="runner", details={"last_seq": last_seq})


def end_run(store: Store, run: Run, failure: Failure) -> None:
    """End a run with a failure of the runner, after its stored events."""
    session = store.sessions.find(run.session_id)
    summary = RunSummary(run.session_id, session.executor_name)
    events, last = store.events.of_session(run.session_id, run_id=run.run_id), None
    while some := list(islice(events, EVENTS_AT_ONCE)):
        summary, last = summary.after([event.line.encode() for event in some]), some[-1]
    terminal = None if last is None else terminal_in(last.line)
    if terminal is None:
        terminal = failure
        ending = ending_behind(
            run.run_id, 0 if last is None else last.seq, summary, failure, lambda: timestamp(store.now())
        )
        lines = [item.line for item in ending]
        store.events.add(run.run_id, ending[0].seq, lines)
        project_lines(store, run.run_id, lines)
    project_end(store, run.run_id, terminal)


_CANCELLED_IN_THE_QUEUE: Final = Failure(
    status="cancelled",
    error=ErrorInfo(
        type=ErrorType.CANCELLED,
        message="cancelled before a worker started it",
        retryable=False,
        side_effects="none",
        origin="caller",
    ),
)


def cancel_run(store: Store, run: Run) -> RunStatus | None:
    """Ask a run to stop, as a step of a transaction, and end it if it is queued; return the status that it had.

    Returns:
        The status before: an ended run stays as it is. None if there is no such run.
    """
    status = store.runs.request_stop(run.run_id)
    if status == "queued":
        end_run(store, run, _CANCELLED_IN_THE_QUEUE)
    return status


def ending_behind(
    run_id: str, last_seq: int, summary: RunSummary, terminal: Terminal, now: Callable[[], str]
) -> list[Relayed]:
    """Return the events that end a run after its last one: the ends of requests and tool calls, then the terminal."""
    executor = ExecutorIdentity(name=summary.executor_name, version=summary.executor_version)
    identity = RunIdentity(run_id, summary.session_id, executor)
    error = "the run ended before the tool call did"
    bodies: list[Body] = [] if last_seq else [RunStarted(schema_version=str(CURRENT), executor=executor)]
    bodies += [InputResolved(request_id=request, outcome="cancelled", by="policy") for request in summary.open_requests]
    bodies += [
        ToolFinished(tool_call_id=call, tool_name=name, status="cancelled", error=error)
        for call, name in reversed(summary.open_tools.items())  # parts end before their call
    ]
    return [
        as_event_of(identity, last_seq + number, body, None, now) for number, body in enumerate([*bodies, terminal], 1)
    ]


def _outboxes_wait(home: Path) -> bool:
    from ao_runner.outbox.owning import leftovers_wait, places_of  # hardly any run needs an outbox

    return leftovers_wait(places_of(home, "local"))
