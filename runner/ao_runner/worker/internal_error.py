"""The end of a run that the worker itself could not perform: a fault of ours, which must not touch any other run."""

from ao_protocol.errors import ErrorType
from ao_protocol.events import ErrorInfo, Failure
from ao_runner.outbox import KeyState, Outbox
from ao_runner.store.records import RunRecord, timestamp
from ao_runner.worker.held_runs import HeldRun
from ao_runner.worker.leftovers import ending_behind
from ao_runner.worker.reading import Reading
from ao_runner.worker.spooling import Spooler


async def end_after_mishap(
    held: HeldRun, error: Exception, outbox: Outbox, spooler: Spooler, reading: Reading
) -> Failure:
    """End a run behind what is kept of it, unless its terminal event is there, and return how it ends."""
    failure = _failure(error)
    if not held.journal.has_ended:
        spooler.sync()
        known = (state for state in outbox.open_keys() if state.key == held.key)
        state = next(known, KeyState(held.key, 0, 0, has_terminal=False, note=held.synopsis.to_note()))
        ending = await reading.persist(lambda: ending_behind(outbox, state, failure, timestamp))
        spooler.append(held.key, state.durable_seq + 1, ending, ends=True)
    held.journal.record = RunRecord(argv=(), problems=(failure.error.message,), problem_count=1)
    return failure


def _failure(error: Exception) -> Failure:
    return Failure(
        status="failed",
        error=ErrorInfo(
            type=ErrorType.INTERNAL_ERROR,
            message=f"internal error of the runner: {type(error).__name__}; see the worker's log",
            retryable=False,
            side_effects="possible",
            origin="runner",
        ),
    )
