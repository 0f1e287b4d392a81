"""Values that the runner stores about sessions and runs, and the errors of the store; no storage."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

from pydantic import JsonValue

from ao_protocol.rejected_answers import RejectedAnswer
from ao_protocol.wire import JsonObject
from ao_runner.store.columns import COPIED, FLAG, ITEMS, OBJECT, OBJECT_OR_NONE, VALUE

LAST: Final = "last"
"""The id that refers to the session of the newest run."""
RunStatus = Literal["queued", "running", "completed", "failed", "cancelled"]
ExecutionMode = Literal["sync", "async_poll", "async_callback"]
"""Whether the session that asks for a run waits for its end, asks for its status, or is resumed at its end."""
OPEN_STATUSES: Final[tuple[RunStatus, ...]] = ("queued", "running")
"""The statuses of a run that has not ended."""
TAG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}")
TAIL_CHARACTERS: Final = 64 * 1024
"""Maximum number of characters to read from the end of a run's last events."""


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


class StoredEvent(NamedTuple):
    """An event as it was relayed."""

    position: int
    """Increases over all runs of a store. Events that were stored together share it."""
    run_id: str
    seq: int
    line: str


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


def timestamp(of: datetime | None = None) -> str:
    """Return a time in UTC, by default the current one, in the format of events."""
    return (of or datetime.now(UTC)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_since(time_of_event: str, now: datetime) -> float:
    """Return the age of a timestamp in seconds, at least 0, since clocks step. Both times are of one clock."""
    return max(0.0, (now - datetime.fromisoformat(time_of_event)).total_seconds())
