"""What the runner keeps of sessions and runs, and what can go wrong with it: plain values, no storage."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Final, Literal

from ao_protocol.rejected_answers import RejectedAnswer
from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError

LAST: Final = "last"
"""Stands for the session that ran most recently."""
RunStatus = Literal["queued", "running", "completed", "failed", "cancelled"]
OPEN_STATUSES: Final[tuple[RunStatus, ...]] = ("queued", "running")
"""A run that stands so has not ended."""


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation with an agent, and all that a later run of it needs."""

    session_id: str
    created_at: str
    executor_name: str
    executor_path: str
    project_dir: str
    blueprint: JsonObject
    executor_config: JsonObject = field(default_factory=dict)
    executor_session_id: str | None = None
    profile: str | None = None
    """How its runs are run, unless they say otherwise; None is the executor alone."""
    is_simulated: bool = False
    """Whether a model script stood in for the model; a resume then needs one, too."""

    @property
    def agent_name(self) -> str:
        """The blueprint's name."""
        return str(self.blueprint.get("name", ""))


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a session, as it stands."""

    run_id: str
    session_id: str
    mode: Literal["start", "resume"]
    parameters: JsonObject
    started_at: str
    status: RunStatus = "running"
    ended_at: str | None = None
    error_type: str | None = None
    contract: JsonObject | None = None
    """The output contract that the caller demanded; `schema_name` in it is the name of a named schema."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """How a run went: which program, when, and how it left. It holds no value of any secret.

    `seconds` says how long after `started_at` it was described, spawned, and so on; what did not happen is absent.
    """

    argv: tuple[str, ...]
    containment: str = "process_group"
    launched: str = "cold"
    """Whether the process was new, parked, prepared, or kept from the run before."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    exit_code: int | None = None
    stop_actions: tuple[str, ...] = ()
    problem_count: int = 0
    problems: tuple[str, ...] = ()
    stderr_tail: str = ""
    rejected_answers: tuple[RejectedAnswer, ...] = ()
    """Answers that did not fit the contract, in no event (SPEC 9.5); none where the caller does not want them kept."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as it was relayed."""

    position: int
    """Grows over all runs of a store. Events that were kept together have the same one."""
    run_id: str
    seq: int
    line: str


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """What a run in the queue needs beside itself."""

    run: Run
    profile: str
    """The profile or executor that shall perform it."""
    timeout_seconds: float | None = None
    metadata: JsonObject | None = None
    model_script: str | None = None
    """The model script, as JSON, that answers instead of a model."""


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run that a worker has taken."""

    queued: QueuedRun
    attempt: int
    queued_at: str


@dataclass(frozen=True, slots=True)
class RunState:
    """How a run in the store stands, for lists."""

    run: Run
    profile: str | None
    attempt: int
    owner: str
    queued_at: str | None
    has_begun: bool
    stop_wanted: bool
    last_seq: int


@dataclass(eq=False)
class NotHeld(RunnerError):
    """A worker speaks of a run that it does not hold."""

    run_id: str
    reason: str

    def __str__(self) -> str:
        return f"run {self.run_id} is not held by this worker: {self.reason}"


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run that is not over. `since` is when it began, or was put into the queue."""

    run_id: str
    session_id: str
    agent_name: str
    profile: str
    status: RunStatus
    attempt: int
    owner: str
    since: str
    is_stopping: bool
    events: int
    last_lines: tuple[str, ...]
    """Some of its last events as JSON lines; none where the last one is too long to look at."""


@dataclass(frozen=True, slots=True)
class Live:
    """How things stand: all runs that run, the first of those that wait, and how many there are."""

    queued: int
    running: int
    ended_lately: int
    runs: tuple[LiveRun, ...]


@dataclass(frozen=True, slots=True)
class NamedSchema:
    """A schema that runs can ask for by its name."""

    name: str
    description: str
    schema: JsonObject
    created_at: str
    used_by_runs: int = 0
    """How many runs of this store there were, whatever became of them, whose contract names it."""
    is_deleted: bool = False
    """Nobody can ask for it any more; it is kept because results of old runs name it."""


@dataclass(frozen=True, slots=True)
class DeletableSession:
    """A session of which nothing but its size and age has to be known. It can also be a damaged one."""

    session_id: str
    agent_name: str
    runs: int
    last_activity: str
    """When its last run began or ended."""


@dataclass(eq=False)
class SessionsOpen(RunnerError):
    """Sessions have runs that are queued or running."""

    session_ids: Sequence[str]

    def __str__(self) -> str:
        first = self.session_ids[0]
        return (
            f"nothing was deleted: a run is queued or running in {', '.join(self.session_ids)}; wait for its end,"
            f" or cancel it with: ao cancel {first}"
        )


def timestamp() -> str:
    """Return the time of now as events carry it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_since(time_of_event: str) -> float:
    """Return how long ago a timestamp is; never less than 0, since clocks step."""
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(time_of_event)).total_seconds())


@dataclass(eq=False)
class SessionUnknown(RunnerError):
    """No session, or more than one, goes by that name."""

    wanted: str
    candidates: Sequence[str] = ()

    def __str__(self) -> str:
        if self.candidates:
            return f"{self.wanted!r} is ambiguous: {', '.join(self.candidates)}; give more of the id"
        return f"there is no session or run {self.wanted!r}; `ao sessions` and `ao runs` list them"


@dataclass(eq=False)
class OfAnotherSession(RunnerError):
    """An id is known, but it is not one of the session that was named with it."""

    wanted: str
    owner: str
    session_id: str

    def __str__(self) -> str:
        return f"{self.wanted!r} is of session {self.owner}, not of {self.session_id}; name one of them only"


@dataclass(eq=False)
class SessionBusy(RunnerError):
    """Another run of the session goes on: one conversation has one run at a time."""

    session_id: str

    def __str__(self) -> str:
        return f"session {self.session_id} has a run that has not ended; follow it with: ao events {self.session_id} -f"


@dataclass(eq=False)
class RowDamaged(RunnerError):
    """A row of the store cannot be read. `row_id` is the id of the run or session, or the row's number."""

    kind: str
    row_id: str
    reason: str

    def __str__(self) -> str:
        return (
            f"the store's row of {self.kind} {self.row_id} is damaged: {self.reason}. Other rows can be read; restore"
            " the store from a backup, or correct or delete this row with sqlite3"
        )


class Damage(dict[str, RowDamaged]):
    """The damaged rows that lists have left out, by their sentences."""

    def add(self, damaged: RowDamaged) -> None:
        """Note a row, once."""
        self[str(damaged)] = damaged

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Forget what is added inside the block."""
        before = dict(self)
        try:
            yield
        finally:
            self.clear()
            self.update(before)


@dataclass(eq=False)
class RowConflict(RunnerError):
    """A run or event of that name is kept already."""

    what: str

    def __str__(self) -> str:
        return f"{self.what} is kept already; give it another id or number"


@dataclass(eq=False)
class StoreUnusable(RunnerError):
    """The store's file cannot be opened, or another version of this program made it."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"cannot use {self.path}: {self.reason}. Choose another folder with --home or AO_HOME"


class StoreDamaged(StoreUnusable):
    """What stands in the store's file cannot be read: pages, tables or columns of it are broken or missing."""

    def __str__(self) -> str:
        return (
            f"{self.path} is damaged: {self.reason}. Restore it from a backup, or save what is left with"
            f" `sqlite3 {self.path} .recover`; until then choose another folder with --home or AO_HOME"
        )


@dataclass(eq=False)
class StoreUnwritable(RunnerError):
    """The store takes no more: its disk is full or broken, or others do not let go of it."""

    path: Path
    reason: str
    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        return (
            f"cannot write to {self.path}: {self.reason}. Free disk space, make the folder writable, or choose another "
            "one with --home or AO_HOME. An active run was stopped; the next ao command records its end"
        )


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that writes to a store now."""

    pid: int
    is_stopped: bool


@dataclass(eq=False)
class StoreBusy(StoreUnwritable):
    """Another process has been writing to the store for longer than anybody should."""

    holder: Holder | None = None

    def __str__(self) -> str:
        match self.holder:
            case Holder(pid=pid, is_stopped=True):
                who = f"process {pid} holds the write lock and is suspended. Resume it: kill -CONT {pid}"
            case Holder(pid=pid):
                who = f"process {pid} does not release the write lock. Inspect it: ps -fp {pid}"
            case None:
                who = f"another process does not release the write lock. Find it: lsof {self.path}"
        return f"cannot write to {self.path}: {who}; then retry. An active run was stopped"
