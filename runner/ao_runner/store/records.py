"""Values that the runner stores about sessions and runs, and the errors of the store; no storage."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import JsonValue

from ao_protocol.rejected_answers import RejectedAnswer
from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError

LAST: Final = "last"
"""The id that refers to the session of the newest run."""
RunStatus = Literal["queued", "running", "completed", "failed", "cancelled"]
ExecutionMode = Literal["sync", "async_poll", "async_callback"]
"""Whether the session that asks for a run waits for its end, asks for its status, or is resumed at its end."""
OPEN_STATUSES: Final[tuple[RunStatus, ...]] = ("queued", "running")
"""The statuses of a run that has not ended."""


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation with an agent, and everything that a later run of it needs."""

    session_id: str
    created_at: str
    executor_name: str
    executor_path: str
    project_dir: str
    blueprint: JsonObject
    executor_config: JsonObject = field(default_factory=dict)
    executor_session_id: str | None = None
    profile: str | None = None
    """The default profile of its runs; None means the executor alone."""
    host: str | None = None
    """The host that has the executor's data of the session; None before the first run, and in the store of one host."""
    is_simulated: bool = False
    """Whether a model script replaced the model; then a resume needs one, too."""
    parent_session_id: str | None = None
    """The session that started this one."""

    @property
    def agent_name(self) -> str:
        """The blueprint's name."""
        return str(self.blueprint.get("name", ""))


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a session and its current status."""

    run_id: str
    session_id: str
    mode: Literal["start", "resume"]
    parameters: JsonObject
    started_at: str
    status: RunStatus = "running"
    ended_at: str | None = None
    error_type: str | None = None
    contract: JsonObject | None = None
    """The output contract that the caller requires; its `schema_name` is the name of a named schema."""
    parent_session_id: str | None = None
    """The session that asked for the run."""
    execution_mode: ExecutionMode | None = None
    """How that session learns of the end."""
    input_responses: list[JsonValue] | None = None
    """The answers with which a resume continues a parked run (SPEC 8.3)."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """How a run went: its program, times and exit. It contains no value of any secret.

    `seconds` maps each step, such as `spawned`, to the time since `started_at`; skipped steps are absent.
    """

    argv: tuple[str, ...]
    containment: str = "process_group"
    launched: str = "cold"
    """Whether the process was new, parked, prepared, or kept from the previous run."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    exit_code: int | None = None
    stop_actions: tuple[str, ...] = ()
    problem_count: int = 0
    problems: tuple[str, ...] = ()
    stderr_tail: str = ""
    rejected_answers: tuple[RejectedAnswer, ...] = ()
    """Answers that did not fit the contract, in no event (SPEC 9.5); empty if the caller does not want them stored."""
    workspace: JsonObject | None = None
    """What the run changed in its workspace, and where the changes are, as in the event `_ao/workspace`."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as it was relayed."""

    position: int
    """Increases over all runs of a store. Events that were stored together share it."""
    run_id: str
    seq: int
    line: str


TAG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}")
"""A tag that a run demands and a worker offers."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where and when a queued run may be performed."""

    requires: tuple[str, ...] = ()
    """Tags that a worker must offer."""
    priority: int = 0
    """Runs with a higher number are claimed first."""
    not_before: str | None = None
    """The earliest time of a claim, as a timestamp."""


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A queued run and the settings for it."""

    run: Run
    profile: str
    """The profile or executor that performs the run."""
    timeout_seconds: float | None = None
    metadata: JsonObject | None = None
    model_script: str | None = None
    """The model script, as JSON, that replaces the model."""
    placement: Placement = Placement()
    requeue: bool = False
    """Whether a copy is queued if the run ends at a usage limit with a known reset."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a worker offers to runs when it claims some."""

    owner: str
    """The name of the worker, see `ao_runner.store.ownership`."""
    profiles: tuple[str, ...] = ()
    """The profiles that it serves; empty if it serves all."""
    tags: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    """The profiles whose sessions are on storage that all hosts share."""
    pausing: tuple[str, ...] = ()
    """The profiles that a usage limit pauses on all hosts."""
    lease_seconds: float = 30.0
    gone_seconds: float = 600.0
    """After this time without a worker, the sessions of another host count as unavailable."""
    host: str | None = None
    """The host of a worker that uses the store through a server; None for a process on this host."""
    slots: int = 0
    """How many runs it performs at most at a time; 0 if it does not tell."""
    needs_tag: bool = False
    """Whether it takes only runs that demand one of its tags, that of its host excepted."""


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run that a worker has claimed."""

    queued: QueuedRun
    attempt: int
    queued_at: str


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run in the store, for lists."""

    run: Run
    profile: str | None
    attempt: int
    owner: str
    queued_at: str | None
    has_begun: bool
    stop_wanted: bool
    last_seq: int
    placement: Placement = Placement()
    host: str | None = None
    """The host of its session."""
    succeeds: str | None = None
    """The run that this one repeats: it ended at a usage limit, or somebody has run it again from a page."""
    agent_name: str = ""
    number: int = 0
    """Increases with each run of the store."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to search for. A run has to fit all that is set."""

    statuses: tuple[RunStatus, ...] = ()
    agent: str | None = None
    equal: Mapping[Literal["profile", "session_id", "parent_session_id", "run_id"], str] = field(default_factory=dict)
    text: str | None = None
    """Part of the parameters, or of the end of one of the newest runs, in any case of letters."""
    before: int | None = None
    """Only runs with a smaller `RunState.number`."""
    limit: int = 50
    only: tuple[Literal["last", "unrepeated"], ...] = ()
    """Only the last run of each session; only runs that no other one repeats."""


@dataclass(eq=False)
class NotHeld(RunnerError):
    """A worker reports on a run that it does not hold."""

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
    """Some of its last events as JSON lines; empty if the last one is too long to read."""


@dataclass(frozen=True, slots=True)
class Live:
    """The current state: all active runs, the first queued ones, and the counts of both."""

    queued: int
    running: int
    ended_lately: int
    runs: tuple[LiveRun, ...]


@dataclass(frozen=True, slots=True)
class RunLimit:
    """The most runs of an agent or of a profile that may run at a time, on all hosts together.

    A `pause` is a limit of 0 on a profile until a time, because of a usage limit of its provider.
    """

    kind: Literal["agent", "profile", "pause"]
    name: str
    most: int
    until: str | None = None
    running: int = 0


@dataclass(frozen=True, slots=True)
class Fleet:
    """The number of processes that take runs from a store, and its load.

    `profiles` has a row for each profile with open runs: its name, the numbers of queued and of running runs, and since
    when the oldest queued one waits.
    """

    workers: int
    profiles: Sequence[tuple[str | None, int, int, str | None]]


@dataclass(frozen=True, slots=True)
class NamedSchema:
    """A schema that runs can refer to by name."""

    name: str
    description: str
    schema: JsonObject
    created_at: str
    used_by_runs: int = 0
    """The number of runs in this store, with any status, whose contract names the schema."""
    is_deleted: bool = False
    """No new run can use it; it is kept because results of old runs name it."""


@dataclass(frozen=True, slots=True)
class DeletableSession:
    """A summary of a session that may be deleted. The session may be damaged."""

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


def timestamp(of: datetime | None = None) -> str:
    """Return a time in UTC, by default the current one, in the format of events."""
    return (of or datetime.now(UTC)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_since(time_of_event: str) -> float:
    """Return the age of a timestamp in seconds, at least 0, since clocks step."""
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(time_of_event)).total_seconds())


@dataclass(eq=False)
class SessionUnknown(RunnerError):
    """No session, or more than one, matches an id."""

    wanted: str
    candidates: Sequence[str] = ()

    def __str__(self) -> str:
        if self.candidates:
            return f"{self.wanted!r} is ambiguous: {', '.join(self.candidates)}; give more of the id"
        return f"there is no session or run {self.wanted!r}; `ao sessions` and `ao runs` list them"


@dataclass(eq=False)
class OfAnotherSession(RunnerError):
    """An id is known, but belongs to another session than the one named with it."""

    wanted: str
    owner: str
    session_id: str

    def __str__(self) -> str:
        return f"{self.wanted!r} is of session {self.owner}, not of {self.session_id}; name one of them only"


@dataclass(eq=False)
class SessionBusy(RunnerError):
    """The session has an unfinished run: a conversation has one run at a time."""

    session_id: str

    def __str__(self) -> str:
        return f"session {self.session_id} has a run that has not ended; follow it with: ao events {self.session_id} -f"


@dataclass(eq=False)
class RowDamaged(RunnerError):
    """A row of the store cannot be read. `row_id` is the id of the run or session, or the number of the row."""

    kind: str
    row_id: str
    reason: str

    def __str__(self) -> str:
        return (
            f"the store's row of {self.kind} {self.row_id} is damaged: {self.reason}. Other rows can be read; restore"
            " the store from a backup, or correct or delete this row with sqlite3"
        )


class Damage(dict[str, RowDamaged]):
    """The damaged rows that lists have omitted, keyed by their error messages."""

    def add(self, damaged: RowDamaged) -> None:
        """Record a row, once."""
        self[str(damaged)] = damaged

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Discard additions of the `with` block."""
        before = dict(self)
        try:
            yield
        finally:
            self.clear()
            self.update(before)


@dataclass(eq=False)
class RowConflict(RunnerError):
    """A run or event with that id already exists."""

    what: str

    def __str__(self) -> str:
        return f"{self.what} is kept already; give it another id or number"


@dataclass(eq=False)
class StoreUnusable(RunnerError):
    """The store cannot be opened, or was made by another version of this program. `path` is its file or server."""

    path: Path | str
    reason: str

    def __str__(self) -> str:
        if isinstance(self.path, str):
            return f"cannot use {self.path}: {self.reason}"
        return f"cannot use {self.path}: {self.reason}. Choose another folder with --home or AO_HOME"


class StoreDamaged(StoreUnusable):
    """The contents of the store's file cannot be read: pages, tables or columns are broken or missing."""

    def __str__(self) -> str:
        return (
            f"{self.path} is damaged: {self.reason}. Restore it from a backup, or save what is left with"
            f" `sqlite3 {self.path} .recover`; until then choose another folder with --home or AO_HOME"
        )


@dataclass(eq=False)
class StoreUnwritable(RunnerError):
    """The store cannot be written: its disk is full or broken, or another process holds it."""

    path: Path | str
    reason: str
    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        return (
            f"cannot write to {self.path}: {self.reason}. Free disk space, make the folder writable, or choose another "
            "one with --home or AO_HOME. An active run was stopped; the next ao command records its end"
        )


class StoreUnreachable(StoreUnwritable):
    """The server of the store does not answer, or cannot write now."""

    def __str__(self) -> str:
        return f"cannot use {self.path}: {self.reason}. Check --store or AO_STORE and that the server runs, then retry"


class StoreLocked(StoreUnwritable):
    """Another session of the server uses a table that has to be changed."""

    def __str__(self) -> str:
        return f"cannot change {self.path}: another session uses its tables (see pg_stat_activity); retry when it ends"


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that currently holds the write lock of a store."""

    pid: int
    is_stopped: bool


@dataclass(eq=False)
class StoreBusy(StoreUnwritable):
    """Another process has held the write lock longer than the timeout."""

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
