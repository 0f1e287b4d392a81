"""Who looks on while a worker works: its log, its metrics, its traces. None of them may keep a run waiting."""

from ao_protocol.events import Terminal
from ao_runner.worker.held_runs import HeldRun


class Observer:
    """Hears what becomes of each run. Nothing here does anything; an observer overrides what it wants to hear."""

    def run_claimed(self, held: HeldRun) -> None:
        """Hear that a run was handed out to this worker."""

    def run_begins(self, held: HeldRun) -> None:
        """Hear that the coordinator lets a run begin. `held.assignment` is read only after this."""

    def run_ended(self, held: HeldRun, terminal: Terminal) -> None:
        """Hear that the process of a run is gone; its record is in `held.journal`, its events may be under way.

        `terminal` is how the coordinator takes it to have ended, as far as that is known by then.
        """

    def end_delivered(self, held: HeldRun, terminal: Terminal) -> None:
        """Hear, after `run_ended`, what the coordinator has as the end: the run's own, or the failure in its place."""

    def lease_lost(self, held: HeldRun) -> None:
        """Hear that a run is this worker's no more, before it has ended."""
