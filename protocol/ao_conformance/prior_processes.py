"""The processes that are started before the judged one, one after another, with the same model."""

import contextlib
import shutil
import signal
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from ao_conformance.driver.process import Process
from ao_conformance.driver.starting import Start
from ao_conformance.driver.transcript import Transcript
from ao_conformance.event_lines import count_of_type, member
from ao_conformance.filling import Filling, encoded
from ao_conformance.surroundings import Surroundings
from ao_conformance.vectors import Prior

START_SECONDS: Final = 30.0
"""How long an event or the end of such a process is waited for."""


class PriorProcesses:
    """What came before the judged process of one play."""

    def __init__(
        self, surroundings: Surroundings, transcript: Transcript, filling: Filling, environment: Mapping[str, str]
    ) -> None:
        self._surroundings = surroundings
        self._transcript = transcript
        self._filling = filling
        self._project_dir = filling.project_dir
        self._environment = environment
        self.last: Process | None = None
        self.session: str | None = None
        """What the first of them bound, or a resume of it since: of several the last one is valid (AOX-082)."""
        self.unreached: list[str] = []
        """The events that never came."""

    @property
    def is_stuck(self) -> bool:
        """Whether the last one lives and never said anything: there is nothing to go on from."""
        return self.last is not None and not self.last.lines and not self.last.is_over

    def play(self, priors: Iterable[Prior], living: contextlib.ExitStack) -> None:
        """Start each when the one before it is where it should be; nothing of them is left behind `living`.

        Raises:
            NoSession: one goes on with a session that the first never bound.
            OSError: the machine could not start one.
        """
        for prior in priors:
            self.last = living.enter_context(self._start(prior))
            self._await(prior, self.last)
            if self.is_stuck:
                return
            missing = [wanted for wanted in prior.tells if not count_of_type(self.last.lines, wanted)]
            self.unreached.extend(f"event:{wanted} of the process before" for wanted in missing)
            if self.session is None or prior.invocation.get("mode") == "resume":
                self.session = _bound_session(self.last) or self.session

    def _start(self, prior: Prior) -> Process:
        folder = self._project_dir
        if prior.own_project_dir:
            folder = shutil.copytree(self._project_dir, self._project_dir.parent / "other")
        filling = replace(self._filling, project_dir=folder, session=self.session)
        invocation = filling.invocation({}, prior.invocation)
        start = Start(
            self._surroundings.subject.command, folder, self._environment, own_folder=self._project_dir.parent
        )
        process = Process(start, self._transcript, number=1)
        process.write(encoded(invocation))
        return process

    def _await(self, prior: Prior, process: Process) -> None:
        if prior.until == "end":
            self._await_end(process)
            return
        wanted = prior.until.removeprefix("event:")
        limit = self._transcript.seconds() + START_SECONDS
        if not process.wait_for(lambda: count_of_type(process.lines, wanted) > 0, limit):
            self.unreached.append(f"{prior.until} of the process before")
        if prior.ended_by is not None:
            process.signal(signal.Signals[prior.ended_by])
            self._await_end(process)

    def _await_end(self, process: Process) -> None:
        process.wait_for(lambda: False, self._transcript.seconds() + START_SECONDS)
        if process.is_over:
            self._transcript.note("note", "the process before has ended", 1)


def _bound_session(process: Process) -> str | None:
    found = (found for line in reversed(process.lines) if (found := member(line.raw, "executor_session_id")))
    session = next(found, None)
    return session if isinstance(session, str) else None
