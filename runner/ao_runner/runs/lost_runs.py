"""Runs whose runner died: they end as `attempt_lost`, so that every run ends exactly once, also these."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final, Self

from ao_protocol.errors import ErrorType
from ao_protocol.events import (
    Body,
    ExecutorIdentity,
    Failure,
    InvalidEvent,
    Result,
    RunStarted,
    Terminal,
    ToolFinished,
    parse_event,
)
from ao_protocol.version import CURRENT
from ao_runner.run_events import Relayed, RunIdentity, as_event_of
from ao_runner.runs.outcome import error_type_of, failed, status_of
from ao_runner.store.ownership import is_alive
from ao_runner.store.records import (
    RowConflict,
    RowDamaged,
    Run,
    RunState,
    SessionUnknown,
    StoreBusy,
    StoreDamaged,
    StoreUnwritable,
    timestamp,
)
from ao_runner.store.store import Store

EVENTS_AT_ONCE: Final = 1000
"""So many events of a lost run are held in memory at a time."""

_RUN_STARTED: Final = b'"run_started"'
_TOOL_STARTED: Final = b'"tool_started"'
_TOOL_FINISHED: Final = b'"tool_finished"'


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Whose events they are, and which tool calls are open behind them."""

    session_id: str = ""
    executor_name: str = "unknown"
    executor_version: str = "unknown"
    open_tools: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_note(cls, note: str) -> Self:
        """Return what was noted; an empty note is the beginning of a run, and one that is damaged says as little."""
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
                return cls(session_id, name, version, {str(call): str(tool) for call, tool in tools.items()})
            case _:
                return cls()

    def to_note(self) -> str:
        """Return it as JSON."""
        return json.dumps(
            {
                "session_id": self.session_id,
                "executor_name": self.executor_name,
                "executor_version": self.executor_version,
                "open_tools": self.open_tools,
            }
        )

    def after(self, lines: Sequence[bytes]) -> "RunSummary":
        """Return the summary behind some more events."""
        summary = replace(self, open_tools=dict(self.open_tools))
        block = b"\n".join(lines)
        telling = [mark for mark in self._marks() if mark in block]
        if _TOOL_STARTED in telling and _TOOL_FINISHED not in telling:
            telling.append(_TOOL_FINISHED)
        for line in lines if telling else ():
            if any(mark in line for mark in telling):
                with suppress(ValueError, RecursionError):  # delivery tells of a line that is no event
                    summary = summary._after_one(json.loads(line))
        return summary

    def _marks(self) -> Iterator[bytes]:
        """Yield what has to be looked for; each look at a block takes its time, and most would find nothing."""
        yield _TOOL_STARTED
        if self.open_tools:
            yield _TOOL_FINISHED
        if self.executor_name == self.executor_version == "unknown":
            yield _RUN_STARTED

    def _after_one(self, document: dict[str, object]) -> "RunSummary":
        """Return the summary behind one event. The tools change in place: to copy them for each takes too long."""
        match document:
            case {"event_type": "run_started", "session_id": str(session_id), "executor": dict(executor)}:
                name, version = str(executor.get("name")), str(executor.get("version"))
                return replace(self, session_id=session_id, executor_name=name, executor_version=version)
            case {"event_type": "tool_started", "tool_call_id": str(call), "tool_name": str(name)}:
                self.open_tools[call] = name
            case {"event_type": "tool_finished", "tool_call_id": str(call)}:
                self.open_tools.pop(call, None)
            case _:
                pass
        return self


def fail_lost_runs(store: Store, now: Callable[[], str] = timestamp) -> list[str]:
    """End every run whose owner is gone, or has not kept its lease, and return their ids.

    A run that a worker had claimed and not begun goes back into the queue. While dead workers' outboxes wait for a
    worker to deliver them, or one is about it, the runs of workers are left alone: what is in there comes first. A run
    of which a row is damaged stays as it is, and so do all where the store takes no more: it can still be read.

    Raises:
        StoreBusy: another process does not let go of the store; nothing was written.
    """
    if not store.is_writable:
        return []
    ended = []
    try:
        with store.damage.unchanged(), store.explaining():
            if not store.lost_runs():
                return []
            with store.transaction():
                are_workers_runs_waiting = _outboxes_wait(store.home)
                # Found again in here: several processes look for them, and their own workers may speak up meanwhile.
                for state in store.lost_runs():
                    if not state.has_begun:
                        store.give_back(state.run.run_id, state.attempt)
                    elif state.profile is None or not are_workers_runs_waiting:
                        with suppress(RowDamaged, SessionUnknown, RowConflict):
                            end_run(store, state.run, lost_after(state.last_seq), now)
                            ended.append(state.run.run_id)
    except StoreBusy:
        raise
    except (StoreUnwritable, StoreDamaged):
        return []
    return ended


def lost_after(last_seq: int) -> Failure:
    """Return the end of a run whose runner died; `last_seq` is the last event that was durable then (AOX-261)."""
    message = "the runner exited before the run ended; the executor may have done more after the last event"
    return failed(ErrorType.ATTEMPT_LOST, message, origin="runner", details={"last_seq": last_seq})


def end_run(store: Store, run: Run, failure: Failure, now: Callable[[], str] = timestamp) -> None:
    """End a run in the runner's name, behind the events that are kept of it."""
    session = store.find_session(run.session_id)
    summary = RunSummary(run.session_id, session.executor_name)
    events, last = store.list_events(run.session_id, run_id=run.run_id), None
    while some := list(islice(events, EVENTS_AT_ONCE)):
        summary, last = summary.after([event.line.encode() for event in some]), some[-1]
    terminal = None if last is None else _terminal_of(last.line)
    if terminal is None:
        terminal = failure
        ending = ending_behind(run.run_id, 0 if last is None else last.seq, summary, failure, now)
        store.add_events(run.run_id, ending[0].seq, [item.line for item in ending])
    store.end_run(run.run_id, status_of(terminal), now(), error_type_of(terminal))


def _terminal_of(line: str) -> Terminal | None:
    try:
        body = parse_event(line.encode()).body
    except InvalidEvent:
        return None
    return body if isinstance(body, Result | Failure) else None


def ending_behind(
    run_id: str, last_seq: int, summary: RunSummary, failure: Failure, now: Callable[[], str]
) -> list[Relayed]:
    """Return the events that end a run behind its last one: its open tool calls, and the failure."""
    executor = ExecutorIdentity(name=summary.executor_name, version=summary.executor_version)
    identity = RunIdentity(run_id, summary.session_id, executor)
    error = "the run ended before the tool call did"
    bodies: list[Body] = [] if last_seq else [RunStarted(schema_version=str(CURRENT), executor=executor)]
    bodies += [
        ToolFinished(tool_call_id=call, tool_name=name, status="cancelled", error=error)
        for call, name in summary.open_tools.items()
    ]
    return [
        as_event_of(identity, last_seq + number, body, None, now) for number, body in enumerate([*bodies, failure], 1)
    ]


def _outboxes_wait(home: Path) -> bool:
    from ao_runner.outbox.owning import leftovers_wait, places_of  # hardly any run looks at an outbox

    return leftovers_wait(places_of(home, "local"))


def is_orphaned(state: RunState, home: Path) -> bool:
    """Tell whether a running run waits for somebody to take over what its worker has left."""
    return state.run.status == "running" and not is_alive(home, state.owner)
