"""One attempt: an executor process from an invocation to the end of its run."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from ao_lifeline.lifelines import THE_PROGRAM, ProgramNotStarted
from ao_protocol.documents import Description
from ao_protocol.errors import ErrorType
from ao_protocol.events import Terminal
from ao_protocol.redaction import NO_SECRETS, Redactor
from ao_protocol.wire import JsonObject
from ao_runner.processes.cleanup_journal import ScratchNotMade
from ao_runner.run_events import Relayed, RunIdentity
from ao_runner.runs.conversation import Conversation, unchanged
from ao_runner.runs.journal import Journal
from ao_runner.runs.launch import ContainmentNotThere, Launched, Launcher
from ao_runner.runs.outcome import (
    TEMPORARY_FOLDER,
    WORKING_FOLDER,
    CancelledBeforeStart,
    Ending,
    NotAcceptable,
    NotStarted,
    disagreement,
    failure_for,
    settle_terminal,
    with_limit_named,
)
from ao_runner.runs.run_request import RunRequest, invocation_of
from ao_runner.runs.stopping import Cause, Stopping, StopRequests, Timeouts
from ao_runner.runs.supervision import Supervision
from ao_runner.store.records import RunRecord, timestamp

SILENT_INTERVALS: Final = 6
"""After so many heartbeats that did not come, an executor that sends them is stalled (SPEC 11.2)."""


class CannotStart(Exception):
    """The attempt is over before there was a process."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending)
        self.ending = ending


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """One attempt at what was asked: by which executor, where, and who hears of it.

    `relay` gets the attempt's events as they come, the terminal one last; `settle` may turn that one into another. All
    but `request`, `identity`, `relay` and `settle` is the same in every attempt of a run.
    """

    request: RunRequest
    description: Description
    environment: dict[str, str]
    redactor: Redactor
    identity: RunIdentity
    journal: Journal
    stops: StopRequests
    launcher: Launcher
    limit_seconds: float | None
    """The time of the whole run, of which this attempt may have less."""
    relay: Callable[[list[Relayed]], None]
    settle: Callable[[Terminal], Terminal] = unchanged

    async def perform(self, invocation: JsonObject) -> RunRecord:
        """Perform it and return how it went.

        A process that its session has kept may leave by itself as its turn comes, or hang without having read it;
        another one resumes the session then, in what is left of the time.

        Raises:
            CannotStart: there was no process.
        """
        began_at = time.monotonic()
        launched, supervision = await self._in_a_process(invocation)
        if launched.launch_mode == "kept" and (what := _turn_without_effect(supervision)):
            request = _within(self.request, time.monotonic() - began_at)
            if request is not None:
                self.journal.note(f"the process kept for the session {what}; a new one continues")
                now = {**invocation, "limits": invocation_of(request)["limits"]}
                launched, supervision = await replace(self, request=request)._in_a_process(now)
        return self._conclude(launched, supervision)

    async def _in_a_process(self, invocation: JsonObject) -> tuple[Launched, Supervision]:
        journal, stops = self.journal, self.stops
        with self._launch() as launched:
            journal.mark("spawned")
            supervision = self._supervision(launched)
            with stops.told_to(lambda: _obey(stops, supervision, journal)):
                try:
                    await supervision.perform(launched.first_line(invocation))
                except ProgramNotStarted as error:
                    raise self._not_started(error) from error
            journal.mark("reaped")
            if self.request.keeps_rejected_answers:
                launched.take_rejected_answers()
            launched.is_kept = supervision.has_stayed
        return launched, supervision

    def _launch(self) -> Launched:
        if self.stops.count:
            raise CannotStart(CancelledBeforeStart())
        try:
            return self.launcher.launch(self.request, self.description, self.environment)
        except ContainmentNotThere as error:
            raise CannotStart(NotAcceptable(ErrorType.DEPENDENCY_MISSING, str(error))) from error
        except OSError as error:
            raise self._not_started(error) from error

    def _not_started(self, error: OSError) -> CannotStart:
        request, doing = self.request, ""
        if isinstance(error, ProgramNotStarted) and error.doing != THE_PROGRAM:
            doing = error.doing
        elif isinstance(error, ScratchNotMade):
            doing = f"{TEMPORARY_FOLDER} {error.filename}; set TMPDIR"
        elif str(error.filename) == request.session.project_dir:
            doing = WORKING_FOLDER
        return CannotStart(NotStarted(str(request.executor.path), error, doing))

    def _supervision(self, launched: Launched) -> Supervision:
        request = self.request
        stopping = Stopping(request.graces, can_ask=self.description.capabilities.cancel)

        def settle(terminal: Terminal) -> Terminal:
            settled = settle_terminal(terminal, stopping.cause, self.limit_seconds)
            return self.settle(self._explained(settled, launched))

        return Supervision(
            child=launched.child,
            conversation=new_conversation(request, self.identity, self.redactor, settle),
            sink=_Sink(self.journal, self.relay),
            stopping=stopping,
            timeouts=Timeouts(
                start_seconds=request.start_seconds,
                run_seconds=request.timeout_seconds,
                silence_seconds=SILENT_INTERVALS * request.heartbeat_seconds,
                idle_seconds=request.idle_seconds,
                drain_seconds=request.drain_seconds,
            ),
            stderr=launched.stderr,
            stays=launched.may_stay,
        )

    def _explained(self, terminal: Terminal, launched: Launched) -> Terminal:
        """Limits are applied on lifelines only."""
        return with_limit_named(terminal, self.request.profile) if launched.child.is_tied else terminal

    def _conclude(self, launched: Launched, supervision: Supervision) -> RunRecord:
        last_words = supervision.stderr.text(self.redactor.data, self.redactor.longest_bytes)
        ending = replace(supervision.ending(last_words), limit_seconds=self.limit_seconds)
        conversation = supervision.conversation
        if conversation.said is None:
            self.relay(list(conversation.conclude(failure_for(ending))))
        elif not launched.is_kept and (complaint := disagreement(conversation.said, ending.exit_code, ending.cause)):
            conversation.complain(complaint)
        for problem in conversation.late_problems:
            self.journal.note(problem)
        return RunRecord(
            argv=argv_of(self.request),
            containment=launched.containment,
            launched=launched.launch_mode,
            exit_code=ending.exit_code,
            stop_actions=tuple(supervision.stopping.taken),
            problem_count=conversation.problem_count,
            problems=tuple(conversation.problems),
            stderr_tail=ending.stderr_tail,
            rejected_answers=tuple(answer.redacted(self.redactor) for answer in launched.rejected_answers),
        )


@dataclass(frozen=True, slots=True)
class _Sink:
    """Events go the attempt's way; whether there is room for more, the journal knows."""

    journal: Journal
    relay: Callable[[list[Relayed]], None]

    @property
    def is_full(self) -> bool:
        return self.journal.is_full

    def when_room(self, callback: Callable[[], None]) -> None:
        self.journal.when_room(callback)


def _turn_without_effect(supervision: Supervision) -> str | None:
    """Say what a process did in place of a turn that can have had no effect; None where it can.

    Either it went by itself, well and before a word, or it hung with the turn unread. One that has read it may have
    done something, also where it never said so.
    """
    ending = supervision.ending("")
    if not supervision.conversation.has_said_nothing:
        return None
    if ending.cause in {None, Cause.STDOUT_CLOSED} and not ending.was_signalled and ending.exit_code == 0:
        return "exited when its turn began"
    has_left = ending.exit_code is not None
    if ending.cause is Cause.START_TIMEOUT and has_left and supervision.child.stdin.was_left_unread:
        return "did not read its turn in time and was stopped"
    return None


def _within(request: RunRequest, elapsed_seconds: float) -> RunRequest | None:
    """Return the request with the time that is left of it; None where none is."""
    seconds = request.timeout_seconds
    if seconds is None:
        return request
    return replace(request, timeout_seconds=seconds - elapsed_seconds) if seconds > elapsed_seconds else None


def new_conversation(
    request: RunRequest,
    identity: RunIdentity,
    redactor: Redactor = NO_SECRETS,
    settle: Callable[[Terminal], Terminal] = unchanged,
) -> Conversation:
    """Return the conversation with an executor that has said nothing yet."""
    return Conversation(
        identity=identity,
        max_line_bytes=request.max_event_bytes,
        timestamp=timestamp,
        settle=settle,
        redactor=redactor,
        schema_version=request.schema_version,
    )


def argv_of(request: RunRequest) -> tuple[str, ...]:
    """Return the command line of the request's executor."""
    return (str(request.executor.path),)


def _obey(stops: StopRequests, supervision: Supervision, journal: Journal) -> None:
    if stops.is_fenced:
        supervision.kill(Cause.FENCED)
    elif stops.count > 1:
        journal.note("killing the executor")
        supervision.kill()
    else:
        journal.note("asking the executor to stop; a second request kills it")
        supervision.cancel(stops.reason)
