"""The end of a run whose own terminal event the coordinator refuses: a short failure, so that it has one (AOX-240)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ao_protocol.errors import ErrorType
from ao_protocol.events import ErrorInfo, ExecutorIdentity, Failure
from ao_runner.runs.journal import timestamp
from ao_runner.runs.relayed_event import RunIdentity, as_event_of
from ao_runner.runs.run_key import RunKey

MAX_REASON_CHARACTERS: Final = 300


def failure_instead_of(
    line: bytes, key: RunKey, reason: str, set_aside: Path | None, now: Callable[[], str] = timestamp
) -> tuple[Failure, bytes]:
    """Return the failure that takes the place of a terminal event, and its line, which has that event's `seq`.

    Args:
        line: The event that is refused.
        key: Whose it is.
        reason: Why it is refused.
        set_aside: The file that holds it; None where it could not be written.
        now: Gives the failure's timestamp.
    """
    refused = json.loads(line)
    kept = "could not be saved" if set_aside is None else f"was saved in {set_aside}"
    failure = Failure(
        status="failed",
        error=ErrorInfo(
            type=ErrorType.INTERNAL_ERROR,
            message=f"the coordinator rejected the {refused['event_type']} of the run, which {kept}; "
            f"its reason: {reason[:MAX_REASON_CHARACTERS]}",
            retryable=False,
            side_effects="possible",
            origin="runner",
        ),
    )
    identity = RunIdentity(key.run_id, refused["session_id"], ExecutorIdentity(name="unknown", version="unknown"))
    return failure, as_event_of(identity, refused["seq"], failure, None, now).line
