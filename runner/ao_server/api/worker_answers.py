"""The answers to workers and to runners of the older contract, as the OpenAPI document describes them."""

from typing import Literal

from ao_protocol.wire import JsonObject
from ao_runner.coordinators.port import InputAnswer
from ao_runner.run_events import RunKey
from ao_server.api.answers import Described, Run, Time, Yes


class AssignedRun(Described):
    """A run that is handed to a worker; `session` and `run` are as they are stored."""

    key: RunKey
    session: JsonObject
    run: JsonObject
    lease_seconds: float | None
    is_resolved: bool
    first_parameters: JsonObject | None
    queued_seconds: float
    terminate_seconds: float | None


class Assignments(Described):
    """The runs that a worker is given."""

    assignments: list[AssignedRun]


class StoredThrough(Described):
    """The last event that is stored."""

    through_seq: int


class LostRuns(Described):
    """The attempts that are not the worker's any more."""

    lost: list[RunKey]


class WorkerOrders(Described):
    """What the worker is asked to do. `stops` is the number of requests for each run."""

    stops: dict[str, int]
    drain: bool
    answers: list[InputAnswer]


class Decision(Described):
    """The answer that counts."""

    answer: JsonObject


class RegisteredRunner(Described):
    """How a registered runner asks for runs."""

    runner_id: str
    poll_endpoint: str
    poll_timeout_seconds: int
    heartbeat_interval_seconds: int


class HandedOutRun(Run):
    """A run for a runner, with its blueprint."""

    scope: JsonObject | None
    resolved_agent_blueprint: JsonObject


class PolledOrders(Described):
    """What a runner is told: a run, sessions to stop, or the end of its registration."""

    run: HandedOutRun | None = None
    stop_sessions: list[str] | None = None
    deregistered: Yes | None = None


class ShownRunner(Described):
    """A process that takes runs. Its times are known if it has registered."""

    runner_id: str
    registered_at: Time | None
    last_heartbeat: Time | None
    seconds_since_heartbeat: float | None
    status: Literal["online", "stale"]
    hostname: str | None
    project_dir: str | None
    executor_profile: str
    executor: JsonObject
    tags: list[str]
    require_matching_tags: bool


class Runners(Described):
    """The processes that take runs."""

    runners: list[ShownRunner]


class DeregisteredRunner(Described):
    """A runner that was sent away."""

    ok: Yes
    message: str
    initiated_by: Literal["self", "external"]
