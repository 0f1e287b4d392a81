"""The end of a run whose own terminal event the coordinator refuses: a short failure, so that it has one (AOX-240)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from ao_protocol.errors import ErrorType
from ao_protocol.events import ErrorInfo, Failure
from ao_protocol.framing import NotIJson, decode_object
from ao_protocol.wire import JsonObject
from ao_runner.run_events import RunIdentity, as_event_of
from ao_runner.store.records import timestamp

MAX_REASON_CHARACTERS: Final = 300


def failure_instead_of(
    line: bytes,
    identity: RunIdentity,
    seq: int,
    reason: str,
    set_aside: Path | None,
    now: Callable[[], str] = timestamp,
) -> tuple[Failure, bytes]:
    """Return the failure that takes the place of a terminal event, and its line, which has that event's `seq`.

    Args:
        line: The event that is refused.
        identity: Whose it is, where it does not say so itself.
        seq: Its number.
        reason: Why it is refused.
        set_aside: The file that holds it; None where it could not be written.
        now: Gives the failure's timestamp.
    """
    refused = _document(line)
    kept = "could not be saved" if set_aside is None else f"was saved in {set_aside}"
    failure = Failure(
        status="failed",
        error=ErrorInfo(
            type=ErrorType.INTERNAL_ERROR,
            message=f"the coordinator rejected the {refused.get('event_type', 'last event')} of the run, which {kept}; "
            f"its reason: {reason[:MAX_REASON_CHARACTERS]}",
            retryable=False,
            side_effects="possible",
            origin="runner",
        ),
    )
    if isinstance(session_id := refused.get("session_id"), str):
        identity = replace(identity, session_id=session_id)
    return failure, as_event_of(identity, seq, failure, None, now).line


def _document(line: bytes) -> JsonObject:
    try:
        return decode_object(line)
    except NotIJson:  # what is no event is refused, too
        return {}
