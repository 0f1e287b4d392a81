"""One attempt, from an invocation to the end of its executor process, and the launcher that provides the process.

The default launcher starts a new process for each run; `ao_runner.warm` provides another. Modules that are needed only
after the invocation is written are imported after it, so that the import overlaps with the executor's startup.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, Self

from ao_lifeline.lifelines import THE_PROGRAM, WORKING_FOLDER, Lifelines, ProgramNotStarted
from ao_protocol.documents import Description
from ao_protocol.errors import ErrorType
from ao_protocol.events import Terminal
from ao_protocol.framing import encode_line
from ao_protocol.redaction import NO_SECRETS, Redactor
from ao_protocol.rejected_answers import FILE_NAME, VARIABLE, RejectedAnswer, take_answers
from ao_protocol.version import CURRENT
from ao_protocol.wire import JsonObject
from ao_runner.discovery import Executor, describe
from ao_runner.errors import RunnerError
from ao_runner.processes.cleanup_journal import NOT_NOTED, CleanupJournal, Scratch, ScratchNotMade
from ao_runner.processes.spawn import STDERR_TAIL_BYTES, Child, Tail
from ao_runner.profiles import ProfileLimits
from ao_runner.run_events import Relayed, RunIdentity
from ao_runner.runs.run_request import (
    CannotStart,
    ReadyRun,
    RunRequest,
    SandboxNotThere,
    StopRequests,
    refused,
    sandboxed,
)
from ao_runner.store.records import RunRecord, timestamp

if TYPE_CHECKING:
    from ao_runner.runs.conversation import Conversation
    from ao_runner.runs.supervision import Supervision

SILENT_INTERVALS: Final = 6
"""An executor that sends heartbeats is stalled after this number of missed heartbeats (SPEC 11.2)."""
Mark = Literal["described", "spawned", "first_event", "terminal", "reaped"]


class Sink(Protocol):
    """The destination of the events of a run."""

    def relay(self, batch: Sequence[Relayed]) -> None:
        """Accept events."""

    @property
    def is_full(self) -> bool:
        """Whether it cannot accept more for now."""

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call `callback` once it can accept events again."""


class Journal(Sink, Protocol):
    """The record of a run while it is performed."""

    def begin(self) -> None:
        """Open the run."""

    def mark(self, what: Mark) -> None:
        """Record the time of a step."""

    def note(self, sentence: str) -> None:
        """Record a note, which is not an event."""

    def end(self, record: RunRecord) -> Terminal:
        """Close the run, whose terminal event was relayed, and return that event."""


class AttemptContext(NamedTuple):
    """What is the same in every attempt of a run: the run, and the recipients of its events."""

    ready: ReadyRun
    identity: RunIdentity
    journal: Journal
    stops: StopRequests
    launcher: "Launcher"

    async def perform(
        self,
        invocation: JsonObject,
        relay: Callable[[Sequence[Relayed]], None] | None = None,
        settle: Callable[[Terminal], Terminal] = lambda terminal: terminal,
    ) -> RunRecord:
        """Perform an attempt and return its record.

        A process that was kept for its session may exit when its turn begins, or hang without reading the turn. Then a
        new process resumes the session within the remaining time.

        Args:
            invocation: The invocation, whose run id and limits are those of the attempt.
            relay: Receives the events of the attempt in order, the terminal event last; by default the journal.
            settle: May replace the terminal event.

        Raises:
            CannotStart: No process could be started.
        """
        began_at = time.monotonic()
        sink = self.journal if relay is None else _Sink(self.journal, relay)
        attempt = _Attempt(self, invocation, sink, settle)
        launched, supervision = await attempt.in_a_process()
        if launched.launch_mode == "kept" and (what := _turn_without_effect(supervision)):
            limits = _within(attempt.limits, time.monotonic() - began_at)
            if limits is not None:
                self.journal.note(f"the process kept for the session {what}; a new one continues")
                attempt = replace(attempt, invocation={**invocation, "limits": limits})
                launched, supervision = await attempt.in_a_process()
        return attempt.conclude(launched, supervision)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One invocation of an executor, in one process."""

    context: AttemptContext
    invocation: JsonObject
    sink: Sink
    settle: Callable[[Terminal], Terminal]

    @property
    def limits(self) -> JsonObject:
        """The limits of the attempt, which may be less than those of the run."""
        limits = self.invocation["limits"]
        return limits if isinstance(limits, dict) else {}

    async def in_a_process(self) -> "tuple[Launched, Supervision]":
        """Start a process, or take a waiting one, and supervise it to its end."""
        journal, stops = self.context.journal, self.context.stops
        with self._launch() as launched:
            journal.mark("spawned")
            launched.child.stdin.send(launched.first_line(self.invocation))
            supervision = self._supervision(launched)
            with stops.told_to(lambda: _obey(stops, supervision, journal)):
                try:
                    await supervision.perform()
                except ProgramNotStarted as error:
                    raise self._not_started(error) from error
            journal.mark("reaped")
            if self.context.ready.request.keeps_rejected_answers:
                launched.take_rejected_answers()
            launched.is_kept = supervision.has_stayed
        return launched, supervision

    def _launch(self) -> "Launched":
        if self.context.stops.count:
            raise self.context.stops.refusal()
        try:
            return self.context.launcher.launch(self.context.ready)
        except (ContainmentNotThere, SandboxNotThere) as error:
            raise refused(ErrorType.DEPENDENCY_MISSING, str(error)) from error
        except OSError as error:
            raise self._not_started(error) from error

    def _not_started(self, error: OSError) -> CannotStart:
        from ao_runner.runs.outcome import not_started

        doing, ready = "", self.context.ready
        if isinstance(error, ProgramNotStarted) and error.doing != THE_PROGRAM:
            doing = error.doing
        elif isinstance(error, ScratchNotMade):
            doing = f"its folder for temporary files, below {error.filename}; set TMPDIR"
        elif str(error.filename) == ready.session.project_dir:
            doing = WORKING_FOLDER
        is_of_folder = doing == WORKING_FOLDER or isinstance(error, ScratchNotMade)
        return CannotStart(not_started(str(ready.request.executor.path), error, doing, is_of_folder=is_of_folder))

    def _supervision(self, launched: "Launched") -> "Supervision":
        from ao_runner.runs.outcome import settle_terminal, with_limit_named
        from ao_runner.runs.supervision import Stopping, Supervision, Timeouts

        ready, request = self.context.ready, self.context.ready.request
        stopping = Stopping(request.grace_periods, can_ask=ready.description.capabilities.cancel)

        def settle(terminal: Terminal) -> Terminal:
            settled = settle_terminal(terminal, stopping.cause, request.timeout_seconds)
            # Limits are only applied to processes on a lifeline.
            return self.settle(with_limit_named(settled, request.profile) if launched.child.is_tied else settled)

        identity = self.context.identity._replace(run_id=str(self.invocation["run_id"]))
        version, seconds = str(self.invocation["schema_version"]), self.limits.get("timeout_seconds")
        return Supervision(
            child=launched.child,
            conversation=new_conversation(request, identity, version, ready.redactor, settle),
            sink=self.sink,
            stopping=stopping,
            timeouts=Timeouts(
                start_seconds=request.start_seconds,
                run_seconds=seconds if isinstance(seconds, float | int) else None,
                silence_seconds=SILENT_INTERVALS * request.heartbeat_seconds,
                idle_seconds=request.idle_seconds,
                drain_seconds=request.drain_seconds,
            ),
            stderr=launched.stderr,
            stays=launched.may_stay,
            inputs=ready.inputs,
        )

    def conclude(self, launched: "Launched", supervision: "Supervision") -> RunRecord:
        """Add what the executor left out, and return the record of the attempt."""
        from ao_runner.runs.outcome import disagreement, ended_without_terminal

        request, redactor = self.context.ready.request, self.context.ready.redactor
        last_words = supervision.stderr.text(redactor.data, redactor.longest_bytes)
        ending = supervision.ending(last_words)._replace(limit_seconds=request.timeout_seconds)
        conversation = supervision.conversation
        if conversation.said is None:
            self.sink.relay(list(conversation.conclude(ended_without_terminal(ending))))
        elif not launched.is_kept and (complaint := disagreement(conversation.said, ending.exit_code, ending.cause)):
            conversation.complain(complaint)
        for problem in conversation.late_problems:
            self.context.journal.note(problem)
        return RunRecord(
            argv=argv_of(request),
            containment=launched.containment,
            launched=launched.launch_mode,
            exit_code=ending.exit_code,
            stop_actions=tuple(supervision.stopping.taken),
            problem_count=conversation.problem_count,
            problems=tuple(conversation.problems),
            stderr_tail=ending.stderr_tail,
            can_resume=self.context.ready.description.capabilities.resume,
            rejected_answers=tuple(answer.redacted(redactor) for answer in launched.rejected_answers),
        )


@dataclass(frozen=True, slots=True)
class _Sink:
    """Pass events to the attempt's relay; the journal decides whether there is room for more."""

    journal: Journal
    relay: Callable[[Sequence[Relayed]], None]

    @property
    def is_full(self) -> bool:
        return self.journal.is_full

    def when_room(self, callback: Callable[[], None]) -> None:
        self.journal.when_room(callback)


def _turn_without_effect(supervision: "Supervision") -> str | None:
    """Return how a process failed a turn that cannot have had an effect, or None if the turn may have had one.

    Such a process exited with code 0 before any output, or hung and left the turn unread. A process that read its turn
    may have acted on it, even without output.
    """
    from ao_runner.runs.outcome import Cause

    ending = supervision.ending("")
    if not supervision.conversation.has_said_nothing:
        return None
    if ending.cause in {None, Cause.STDOUT_CLOSED} and not ending.was_signalled and ending.exit_code == 0:
        return "exited when its turn began"
    has_left = ending.exit_code is not None
    if ending.cause is Cause.START_TIMEOUT and has_left and supervision.child.stdin.was_left_unread:
        return "did not read its turn in time and was stopped"
    return None


def _within(limits: JsonObject, elapsed_seconds: float) -> JsonObject | None:
    """Return the limits with the remaining time, or None if no time remains."""
    seconds = limits.get("timeout_seconds")
    if not isinstance(seconds, float | int):
        return limits
    return {**limits, "timeout_seconds": seconds - elapsed_seconds} if seconds > elapsed_seconds else None


def new_conversation(
    request: RunRequest,
    identity: RunIdentity,
    version: str = str(CURRENT),
    redactor: Redactor = NO_SECRETS,
    settle: Callable[[Terminal], Terminal] = lambda terminal: terminal,
) -> "Conversation":
    """Return a conversation that has received nothing yet; `version` is that of its invocation."""
    from ao_runner.runs.conversation import Conversation

    return Conversation(
        identity=identity,
        max_line_bytes=request.max_event_bytes,
        timestamp=timestamp,
        settle=settle,
        redactor=redactor,
        schema_version=version,
    )


def argv_of(request: RunRequest) -> tuple[str, ...]:
    """Return the command line of the request's executor; the places of a sandbox are not filled in."""
    sandbox = () if request.sandbox is None else request.sandbox.command
    return (*sandbox, str(request.executor.path))


def _obey(stops: StopRequests, supervision: "Supervision", journal: Journal) -> None:
    from ao_runner.runs.outcome import Cause

    if stops.is_fenced:
        supervision.kill(Cause.FENCED)
    elif stops.count > 1:
        journal.note("killing the executor")
        supervision.kill()
    else:
        journal.note("asking the executor to stop; a second request kills it")
        supervision.cancel(stops.reason)


LaunchMode = Literal["cold", "parked", "prepared", "kept"]


@dataclass(slots=True)
class Launched:
    """A process for one run. The `with` block ends it unless `is_kept` reserves it for another run."""

    child: Child
    scratch: Scratch
    """The folder for the temporary files of the process; it is removed with the process."""
    launch_mode: LaunchMode = "cold"
    stderr: Tail = field(default_factory=lambda: Tail(STDERR_TAIL_BYTES))
    may_stay: bool = False
    is_kept: bool = False
    rejected_answers: Sequence[RejectedAnswer] = ()
    """The rejected answers that the executor left, not redacted."""
    on_kept: Callable[["Launched"], None] | None = None
    """Takes ownership of the child of a kept process."""

    @property
    def containment(self) -> str:
        """The kind of containment that ends the descendants of the process."""
        return self.child.containment

    def first_line(self, invocation: JsonObject) -> bytes:
        """Return the line that begins the run on the stdin of the process."""
        return encode_line(invocation)

    def take_rejected_answers(self) -> None:
        """Read the answers that the executor rejected in this run, before its temporary files are removed."""
        self.rejected_answers = take_answers(self.scratch.folder / FILE_NAME)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_kept and self.on_kept is not None and error is None:
            self.on_kept(self)
        else:
            self.child.close()
            self.scratch.remove()


class Launcher(Protocol):
    """Describes executors and provides processes of them."""

    async def describe(self, executor: Executor, environment: Mapping[str, str]) -> Description:
        """Return the description of an executor; raise the errors of `ao_runner.discovery.describe`."""

    def launch(self, ready: ReadyRun) -> Launched:
        """Return a process that waits for the run's invocation.

        Raises:
            OSError: The process could not be started.
            ContainmentNotThere: The profile requires more containment than this host offers.
        """

    def keeps(self, session_id: str) -> bool:
        """Return whether a process waits for the session's next run."""

    def retire_session(self, session_id: str) -> None:
        """End the process that waits for the session's next run, if there is one."""


class ColdLauncher:
    """Starts a process for each run, on a lifeline if available, and never caches a description.

    Everything that would outlive a SIGKILL of this process is recorded in the cleanup journal.
    """

    def __init__(self, lines: Lifelines | None = None, cleanup: CleanupJournal = NOT_NOTED) -> None:
        self._lines = lines
        self._cleanup = cleanup

    async def describe(self, executor: Executor, environment: Mapping[str, str]) -> Description:
        """Ask the executor for its description."""
        return await describe(executor, environment, self._lines, self._cleanup)

    def launch(self, ready: ReadyRun) -> Launched:
        """Start a process."""
        return Launched(*start(ready, self._lines, self._cleanup))

    def keeps(self, session_id: str) -> bool:
        """Return False: no process waits."""
        return False

    def retire_session(self, session_id: str) -> None:
        """Do nothing: no process waits."""


def start(ready: ReadyRun, lines: Lifelines | None, cleanup: CleanupJournal = NOT_NOTED) -> tuple[Child, Scratch]:
    """Start a process for a run with its own TMPDIR and return both; the cleanup journal records both.

    Raises:
        OSError: The process could not be started.
        ContainmentNotThere: The profile requires more containment than this host offers.
        SandboxNotThere: The program of the profile's sandbox is not there.
    """
    request, environment, folder = ready.request, ready.environment, ready.session.project_dir
    limits = {} if request.profile is None else rlimits_of(request.profile.limits)
    held = lines_for(request, lines)
    scratch = Scratch.make(environment, cleanup)
    try:
        own = {"TMPDIR": str(scratch.folder)}
        if request.keeps_rejected_answers:
            own[VARIABLE] = str(scratch.folder / FILE_NAME)
        argv = sandboxed(request, folder, environment, scratch.folder).argv
        child = Child(argv, {**environment, **own}, Path(folder), lifeline=held, limits=limits)
    except BaseException:
        scratch.remove()
        raise
    scratch.note_group(child.pid)
    return child, scratch


@dataclass(eq=False)
class ContainmentNotThere(RunnerError):
    """A profile requires a containment that this host does not offer."""

    wanted: str
    offered: str

    def __str__(self) -> str:
        return f"the profile requires containment {self.wanted}, this host offers {self.offered}; see `ao doctor`"


def lines_for(request: RunRequest, lines: Lifelines | None) -> Lifelines | None:
    """Return the lifelines for a run according to the containment in its profile.

    Raises:
        ContainmentNotThere: The profile requires more containment than this host offers.
    """
    wanted = "auto" if request.profile is None else request.profile.containment
    offered = "process_group" if lines is None else "lifeline" if lines.leaves is None else "cgroup"
    if wanted == "process_group":
        return None
    if (wanted, offered) in {("cgroup", "lifeline"), ("cgroup", "process_group"), ("lifeline", "process_group")}:
        raise ContainmentNotThere(wanted, offered)
    return lines


def rlimits_of(limits: ProfileLimits) -> dict[str, int]:
    """Return the limits that the system enforces on a process, keyed as in `containment.LIMITS`."""
    wanted = {
        "memory_bytes": limits.memory_bytes,
        "open_files": limits.open_files,
        "processes": limits.processes,
        "file_bytes": limits.file_bytes,
        "cpu_seconds": None if limits.cpu_seconds is None else math.ceil(limits.cpu_seconds),
    }
    return {name: value for name, value in wanted.items() if value is not None}
