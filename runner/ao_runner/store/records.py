"""What the runner keeps of sessions and runs: plain values, no storage."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

from ao_protocol.rejected_answers import RejectedAnswer
from ao_protocol.wire import JsonObject

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


def timestamp() -> str:
    """Return the time of now as events carry it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_since(time_of_event: str) -> float:
    """Return how long ago a timestamp is; never less than 0, since clocks step."""
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(time_of_event)).total_seconds())
