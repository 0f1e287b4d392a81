"""Values that the runner stores about sessions and runs, and the errors of the store; no storage."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

from pydantic import JsonValue

from ao_protocol.rejected_answers import RejectedAnswer
from ao_protocol.wire import JsonObject
from ao_runner.store.columns import COPIED, FLAG, ITEMS, NEEDED, OBJECT, OBJECT_OR_NONE, VALUE, Codec

LAST: Final = "last"
"""The id that refers to the session of the newest run."""
RunStatus = Literal["queued", "running", "completed", "failed", "cancelled"]
SortKey = Literal["state", "agent", "profile", "cost", "took"]
ExecutionMode = Literal["sync", "async_poll", "async_callback"]
"""Whether the session that asks for a run waits for its end, asks for its status, or is resumed at its end."""
OPEN_STATUSES: Final[tuple[RunStatus, ...]] = ("queued", "running")
"""The statuses of a run that has not ended."""
TAG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}")
TAIL_CHARACTERS: Final = 64 * 1024
"""Maximum number of characters to read from the end of a run's last events."""


def _whole_lines(_: str, tail: str) -> tuple[str, ...]:
    """Return the lines of a tail of events, without the first one, of which only the end may be there."""
    return tuple(tail.split("\n")[len(tail) >= TAIL_CHARACTERS :])


_TAIL: Final[dict[str, object]] = {"codec": Codec("\n".join, _whole_lines)}


def check_tag(tag: str) -> str:
    """Return a tag of a worker, or of a run that demands it.

    Raises:
        ValueError: It has another form.
    """
    if not TAG.fullmatch(tag):
        raise ValueError(f"{tag!r} is no tag; expected letters, digits and . _ : / -, at most 128")
    return tag


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation with an agent, and everything that a later run of it needs."""

    session_id: str
    created_at: str
    executor_name: str = field(metadata=COPIED)
    executor_path: str = field(metadata=COPIED)
    project_dir: str = field(metadata=COPIED)
    blueprint: JsonObject = field(metadata=COPIED | OBJECT)
    executor_config: JsonObject = field(default_factory=dict, metadata=COPIED | OBJECT)
    executor_session_id: str | None = None
    profile: str | None = field(default=None, metadata=COPIED)
    """The default profile of its runs; None means the executor alone."""
    host: str | None = None
    """The host that has the executor's data of the session; None before the first run, and in the store of one host."""
    is_simulated: bool = field(default=False, metadata=COPIED | FLAG)
    """Whether a model script replaced the model; then a resume needs one, too."""
    parent_session_id: str | None = field(default=None, metadata=COPIED)
    """The session that started this one."""

    @property
    def agent_name(self) -> str:
        """The blueprint's name."""
        return str(self.blueprint.get("name", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerTerms:
    """What any caller may say of a run besides its agent, its parameters and its answer."""

    profile: str | None = field(default=None, metadata=COPIED)
    """The profile or executor that performs the run; None means the session's, or the worker's own."""
    timeout_seconds: float | None = field(default=None, metadata=COPIED)
    metadata: JsonObject = field(default_factory=dict, metadata=COPIED | OBJECT_OR_NONE)
    """Passed to the executor; `traceparent` is a W3C trace context."""
    labels: Mapping[str, str] = field(default_factory=dict, metadata=COPIED | OBJECT_OR_NONE)
    """Short texts by name, by which people and programs find runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTerms(CallerTerms):
    """All that a request says of a run besides its agent, its parameters and its answer; stored as it was asked for."""

    model_script: str | None = field(default=None, metadata=COPIED)
    """The model script, as JSON, that answers instead of a model."""
    attachments: tuple[JsonObject, ...] = field(default=(), metadata=COPIED | ITEMS)
    """The files beside the prompt, each as in an invocation (SPEC 4.1)."""
    requires: tuple[str, ...] = field(default=(), metadata=COPIED | ITEMS)
    """Tags that a worker must offer."""
    priority: int = field(default=0, metadata=COPIED)
    """Runs with a higher number are claimed first."""
    not_before: str | None = None
    """The earliest time of a claim, as a timestamp."""
    requeue: bool = field(default=False, metadata=COPIED | FLAG)
    """Whether a copy is queued if the run ends at a usage limit with a known reset."""
    parent_session_id: str | None = field(default=None, metadata=COPIED)
    """The session that asked for the run."""
    execution_mode: ExecutionMode | None = field(default=None, metadata=COPIED)
    """How that session learns of the end."""


@dataclass(frozen=True, slots=True)
class Run(RunTerms):
    """One run of a session: what was asked for, and its current status."""

    run_id: str
    session_id: str
    mode: Literal["start", "resume"] = field(metadata=COPIED)
    parameters: JsonObject = field(metadata=COPIED | OBJECT)
    started_at: str
    status: RunStatus = "running"
    ended_at: str | None = None
    error_type: str | None = None
    contract: JsonObject | None = field(default=None, metadata=COPIED | OBJECT)
    """The output contract that the caller requires; its `schema_name` is the name of a named schema."""
    input_responses: list[JsonValue] | None = field(default=None, metadata=COPIED | VALUE)
    """The answers with which a resume continues a parked run (SPEC 8.3)."""
    batch_id: str | None = field(default=None, metadata=COPIED)
    """The batch that it was submitted with, and that a run belongs to which repeats it."""
    succeeds: str | None = None
    """The run that this one repeats: it ended at a usage limit, or has failed, or somebody has run it again."""


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
    can_resume: bool = True
    """Whether the executor declares that it can continue the session."""
    workspace: JsonObject | None = None
    """What the run changed in its workspace, and where it is, as in the event `_ao/workspace` but without diffs."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as it was relayed."""

    position: int
    """Increases over all runs of a store. Events that were stored together share it."""
    run_id: str
    seq: int
    line: str


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

    run: Run
    attempt: int
    queued_at: str = field(metadata=NEEDED)


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run in the store, for lists."""

    run: Run
    attempt: int
    owner: str
    queued_at: str | None
    has_begun: bool = field(metadata=FLAG)
    stop_wanted: bool = field(metadata=FLAG)
    last_seq: int
    host: str | None = None
    """The host of its session."""
    agent_name: str = ""
    number: int = 0
    """Increases with each run of the store."""
    aside: JsonObject | None = field(default=None, metadata=OBJECT)
    """The `note` with which somebody has set the run aside, and when: `at`; None if nobody has."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to search for. A run has to fit all that is set."""

    statuses: tuple[RunStatus, ...] = ()
    agent: str | None = None
    parts: Mapping[Literal["agent_name", "profile"], str] = field(default_factory=dict)
    """Parts of names, in any case of letters."""
    since: str | None = None
    """Only runs that were asked for at this time or later, as a timestamp."""
    until: str | None = None
    """Only runs that were asked for before this time, as a timestamp."""
    equal: Mapping[Literal["profile", "session_id", "parent_session_id", "run_id", "batch_id", "error_type"], str] = (
        field(default_factory=dict)
    )
    labels: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None
    """Part of the parameters, or of the end of one of the newest runs, in any case of letters."""
    before: int | None = None
    """Only runs with a smaller `RunState.number`."""
    limit: int = 50
    only: tuple[Literal["last", "unrepeated"], ...] = ()
    """Only the last run of each session; only runs that no other one repeats."""
    order: SortKey | None = None
    """What to sort the newest runs by; None for the order in which they were added, newest first."""
    is_rising: bool = False
    """Whether the smallest value, or the oldest run, comes first. Runs without a value come last in any case."""
    skip: int = 0
    """How many of the runs that fit are left out at the beginning."""


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
    is_stopping: bool = field(metadata=FLAG)
    events: int
    last_lines: tuple[str, ...] = field(metadata=_TAIL)
    """Some of its last events as JSON lines; empty if the last one is too long to read."""


@dataclass(frozen=True, slots=True)
class Live:
    """The current state: all active runs, the first queued ones, and the counts of both."""

    queued: int
    running: int
    ended_lately: int
    runs: tuple[LiveRun, ...]
    now: datetime
    """The time of the store's clock."""


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
    now: datetime
    """The time of the store's clock."""


@dataclass(frozen=True, slots=True)
class NamedSchema:
    """A schema that runs can refer to by name."""

    name: str
    description: str
    schema: JsonObject = field(metadata=OBJECT)
    created_at: str
    used_by_runs: int = 0
    """The number of runs in this store, with any status, whose contract names the schema."""
    is_deleted: bool = field(default=False, metadata=FLAG)
    """No new run can use it; it is kept because results of old runs name it."""


@dataclass(frozen=True, slots=True)
class DeletableSession:
    """A summary of a session that may be deleted. The session may be damaged."""

    session_id: str
    agent_name: str
    runs: int
    last_activity: str
    """When its last run began or ended."""


def timestamp(of: datetime | None = None) -> str:
    """Return a time in UTC, by default the current one, in the format of events."""
    return (of or datetime.now(UTC)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_since(time_of_event: str, now: datetime) -> float:
    """Return the age of a timestamp in seconds, at least 0, since clocks step. Both times are of one clock."""
    return max(0.0, (now - datetime.fromisoformat(time_of_event)).total_seconds())
