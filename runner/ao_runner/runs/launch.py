"""Who gives a run its process. The usual launcher starts a new one for each run; `ao_runner.warm` has another."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self

from ao_lifeline.lifelines import Lifelines
from ao_protocol.documents import Description
from ao_protocol.framing import encode_line
from ao_protocol.rejected_answers import FILE_NAME, VARIABLE, RejectedAnswer, take_answers
from ao_protocol.wire import JsonObject
from ao_runner.discovery.describe import describe
from ao_runner.discovery.locate import Executor
from ao_runner.errors import RunnerError
from ao_runner.processes.cleanup_journal import NOT_NOTED, CleanupJournal, Scratch
from ao_runner.processes.spawn import STDERR_TAIL_BYTES, Child, Tail
from ao_runner.profiles import Limits
from ao_runner.runs.run_request import RunRequest

LaunchMode = Literal["cold", "parked", "prepared", "kept"]


@dataclass(slots=True)
class Launched:
    """A process for one run. The `with` block ends it, unless `is_kept` says that it stays for another run."""

    child: Child
    scratch: Scratch
    """Where the process keeps temporary files; removed with it."""
    launch_mode: LaunchMode = "cold"
    stderr: Tail = field(default_factory=lambda: Tail(STDERR_TAIL_BYTES))
    may_stay: bool = False
    is_kept: bool = False
    rejected_answers: Sequence[RejectedAnswer] = ()
    """What the executor left of answers that did not fit, as it wrote them."""
    on_kept: Callable[["Launched"], None] | None = None
    """Takes over the child of a process that stays."""

    @property
    def containment(self) -> str:
        """What ends whatever the process starts."""
        return self.child.containment

    def first_line(self, invocation: JsonObject) -> bytes:
        """Return what is written to the process to begin the run."""
        return encode_line(invocation)

    def take_rejected_answers(self) -> None:
        """Read the answers that the executor left during the run, before its temporary files are removed."""
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
    """Knows executors, and gives processes of them."""

    async def describe(self, executor: Executor, environment: Mapping[str, str]) -> Description:
        """Return what an executor says of itself; raises as `ao_runner.discovery.describe.describe` does."""

    def launch(self, request: RunRequest, description: Description, environment: Mapping[str, str]) -> Launched:
        """Return a process that waits for the run's invocation.

        Raises:
            OSError: it could not be started.
            ContainmentNotThere: the profile wants more than this host has.
        """

    def keeps(self, session_id: str) -> bool:
        """Tell whether a process waits for a session's next run."""

    def retire_session(self, session_id: str) -> None:
        """Let the process go that waits for a session's next run, if there is one."""


class ColdLauncher:
    """Starts a process for each run, on a lifeline where there are any, and asks each executor anew.

    What would outlive a SIGKILL of this process is noted in its cleanup.
    """

    def __init__(self, lines: Lifelines | None = None, cleanup: CleanupJournal = NOT_NOTED) -> None:
        self._lines = lines
        self._cleanup = cleanup

    async def describe(self, executor: Executor, environment: Mapping[str, str]) -> Description:
        """Ask the executor."""
        return await describe(executor, environment, self._lines, self._cleanup)

    def launch(self, request: RunRequest, description: Description, environment: Mapping[str, str]) -> Launched:
        """Start a process."""
        return Launched(*start(request, environment, self._lines, self._cleanup))

    def keeps(self, session_id: str) -> bool:
        """No process waits."""
        return False

    def retire_session(self, session_id: str) -> None:
        """No process waits."""


def start(
    request: RunRequest, environment: Mapping[str, str], lines: Lifelines | None, cleanup: CleanupJournal = NOT_NOTED
) -> tuple[Child, Scratch]:
    """Start a process for a run, with a TMPDIR of its own, and return both; both are noted where a SIGKILL leaves them.

    Raises:
        OSError: it could not be started.
        ContainmentNotThere: the profile wants more than this host has.
    """
    limits = {} if request.profile is None else rlimits_of(request.profile.limits)
    argv, folder = [str(request.executor.path)], Path(request.session.project_dir)
    held = lines_for(request, lines)
    scratch = Scratch.make(environment, cleanup)
    try:
        own = {"TMPDIR": str(scratch.folder)}
        if request.keeps_rejected_answers:
            own[VARIABLE] = str(scratch.folder / FILE_NAME)
        child = Child(argv, {**environment, **own}, folder, lifeline=held, limits=limits)
    except BaseException:
        scratch.remove()
        raise
    scratch.note_group(child.pid)
    return child, scratch


@dataclass(eq=False)
class ContainmentNotThere(RunnerError):
    """A profile asks for a containment that this host does not offer."""

    wanted: str
    offered: str

    def __str__(self) -> str:
        return f"the profile requires containment {self.wanted}, this host offers {self.offered}; see `ao doctor`"


def lines_for(request: RunRequest, lines: Lifelines | None) -> Lifelines | None:
    """Return the lifelines for a run, as its profile wants it contained.

    Raises:
        ContainmentNotThere: it wants more than there is.
    """
    wanted = "auto" if request.profile is None else request.profile.containment
    offered = "process_group" if lines is None else "lifeline" if lines.leaves is None else "cgroup"
    if wanted == "process_group":
        return None
    if (wanted, offered) in {("cgroup", "lifeline"), ("cgroup", "process_group"), ("lifeline", "process_group")}:
        raise ContainmentNotThere(wanted, offered)
    return lines


def rlimits_of(limits: Limits) -> dict[str, int]:
    """Return the limits that the system enforces on a process, by the names of `containment.LIMITS`."""
    wanted = {
        "memory_bytes": limits.memory_bytes,
        "open_files": limits.open_files,
        "processes": limits.processes,
        "file_bytes": limits.file_bytes,
        "cpu_seconds": None if limits.cpu_seconds is None else math.ceil(limits.cpu_seconds),
    }
    return {name: value for name, value in wanted.items() if value is not None}
