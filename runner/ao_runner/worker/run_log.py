"""The two lines of a worker's log that every run gets: that it begins, and how it ended."""

from typing import Any

from ao_protocol.events import Failure, Terminal
from ao_runner.runs.journal import error_type_of, status_of
from ao_runner.worker.held_runs import HeldRun
from ao_runner.worker.log import Log
from ao_runner.worker.observer import Observer


class RunLog(Observer):
    """Says of each run that it begins and how it ended."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def run_begins(self, held: HeldRun) -> None:
        """Say so."""
        assignment = held.assignment
        self._log.info(
            "run begins", **_names_of(held), agent=assignment.session.agent_name, profile=assignment.profile,
            queued_seconds=round(assignment.queued_seconds, 3),
        )  # fmt: skip

    def run_ended(self, held: HeldRun, terminal: Terminal) -> None:
        """Say how, when what happened, and by which process."""
        journal, record = held.journal, held.journal.record
        told = self._log.warning if isinstance(terminal, Failure) and terminal.status == "failed" else self._log.info
        told(
            "run ended", **_names_of(held), outcome=status_of(terminal), error_type=error_type_of(terminal),
            seconds={"queued": round(held.assignment.queued_seconds, 3), **journal.marks.seconds},
            events=journal.events, problems=0 if record is None else record.problem_count,
            launched=record and record.launched, containment=record and record.containment,
            exit_code=record and record.exit_code,
        )  # fmt: skip


def _names_of(held: HeldRun) -> dict[str, Any]:
    return {
        "run_id": held.key.run_id,
        "session_id": held.assignment.session.session_id,
        "attempt": held.key.attempt,
    }
