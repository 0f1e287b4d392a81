"""What the events of a run mean to the store: the one place where an event becomes rows beside the event itself.

Each function is a step of the transaction that stores the events. Workers call it with lines, of which only those are
decoded that change a row.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from ao_protocol.errors import ErrorType
from ao_protocol.events import REQUEST_EVENTS, Failure, Terminal, UsageFigures
from ao_protocol.raw_events import events_of_types
from ao_protocol.wire import JsonObject
from ao_runner.runs.outcome import error_type_of, status_of
from ao_runner.runs.submission import new_run_id, new_session_id
from ao_runner.store.records import timestamp
from ao_runner.store.store import Store

PROJECTED: Final = frozenset({"session_bound", "usage", *REQUEST_EVENTS})
"""The types of events that change rows. The terminal event does, too; see `project_end`."""


def project_lines(store: Store, run_id: str, lines: Sequence[bytes]) -> list[JsonObject]:
    """Do what `project` does for events as lines, and return the events that changed a row."""
    changing = list(events_of_types(lines, PROJECTED))
    project(store, run_id, changing)
    return changing


def project(store: Store, run_id: str, changing: Sequence[JsonObject]) -> None:
    """Store what events of a run report: the executor's own session, usage, requests to a person and their ends.

    Args:
        store: The store.
        run_id: The run.
        changing: Its events of the types in `PROJECTED` in their order, none of which was projected before.
    """
    usage: JsonObject | None = None
    for event in changing:
        match event["event_type"]:
            case "session_bound":
                store.sessions.bind(str(event["session_id"]), str(event["executor_session_id"]))
            case "usage":
                usage = event
            case _:
                store.inputs.note(run_id, event)
    if usage is not None:
        store.runs.record_usage(run_id, UsageFigures.model_validate(usage))


class Ended(NamedTuple):
    """What the end of a run has brought about, for those who have to be told."""

    is_awaited: bool
    """Whether a session or a server waits for the end; `store.notify` wakes it."""
    pause: str | None
    """A sentence about the pause of the run's profile; None if there is none."""


def project_end(store: Store, run_id: str, terminal: Terminal, pausing: Collection[str] = ()) -> Ended:
    """Store what the terminal event of a run means: its status, its usage, a pause until a limit is reset, and a copy.

    Args:
        store: The store.
        run_id: The run.
        terminal: Its terminal event.
        pausing: The profiles that a usage limit pauses on all hosts.
    """
    now = store.now()
    store.runs.end(run_id, status_of(terminal), timestamp(now), error_type_of(terminal))
    store.runs.record_usage(run_id, terminal.usage)
    is_awaited = store.deliveries.is_end_awaited(run_id)
    reset = _reset_of(terminal, now)
    if reset is None or not isinstance(terminal, Failure):
        return Ended(is_awaited, None)
    if terminal.error.side_effects == "none":
        store.queue.requeue(run_id, (new_run_id(), new_session_id()), reset, timestamp(now))
    profile = store.runs.exactly(run_id).profile if pausing else None
    if profile is None or profile not in pausing:
        return Ended(is_awaited, None)
    from ao_runner.store.limit_table import RunLimit

    store.limits.put(RunLimit("pause", profile, 0, reset))
    return Ended(is_awaited, f"profile {profile} is paused until {reset}: {terminal.error.type}")


def _reset_of(terminal: Terminal, now: datetime) -> str | None:
    """Return when the usage limit that a failure reports is reset; None if it reports none, or no time."""
    if not isinstance(terminal, Failure) or terminal.error.retry_after_seconds is None:
        return None
    if terminal.error.type not in {ErrorType.RATE_LIMITED, ErrorType.QUOTA_EXCEEDED}:
        return None
    with suppress(OverflowError):
        return timestamp(now + timedelta(seconds=terminal.error.retry_after_seconds))
    return None
