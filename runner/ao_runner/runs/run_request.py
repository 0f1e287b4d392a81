"""What was asked: one run of a session by an executor, its limits, and the invocation and environment that follow."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ao_protocol.contracts.contract import USUAL_DEFAULTS, OptionDefaults
from ao_protocol.documents import Description, Limits
from ao_protocol.inputs import text_for_agent
from ao_protocol.redaction import NO_SECRETS, Redactor
from ao_protocol.version import CURRENT
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import LoadedBlueprint
from ao_runner.discovery import Executor, locate_executor
from ao_runner.errors import RunnerError
from ao_runner.profiles import Profile, profile_environment
from ao_runner.runs.contracts import contract_fields, keeps_rejected_answers, without_default
from ao_runner.runs.environment import Simulation, executor_environment, refuse_own_credentials, secrets_of
from ao_runner.runs.outcome import Ending, NotFound
from ao_runner.runs.stopping import DRAIN_SECONDS, START_SECONDS, GracePeriods
from ao_runner.store.records import Run, Session

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""More than the protocol's default, so that a long answer arrives whole."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run of a session by an executor, and within which bounds."""

    session: Session
    run: Run
    executor: Executor
    environ: Mapping[str, str]
    simulation: Simulation | None = None
    timeout_seconds: float | None = None
    start_seconds: float = START_SECONDS
    idle_seconds: float | None = None
    drain_seconds: float = DRAIN_SECONDS
    max_turns: int | None = None
    max_cost_usd: float | None = None
    heartbeat_seconds: float = 10.0
    max_event_bytes: int = MAX_EVENT_BYTES
    graces: GracePeriods = field(default_factory=GracePeriods)
    metadata: JsonObject = field(default_factory=dict)
    option_defaults: OptionDefaults = USUAL_DEFAULTS
    """What holds where the run's contract says nothing."""
    verify_results: bool = False
    """Whether a result is held against the contract that its executor says to have kept."""
    keeps_rejected_answers: bool = True
    """Whether answers that do not fit the contract are stored with the run."""
    profile: Profile | None = None
    """How the host wants the executor to be run; the times and sizes above are those that count."""
    runner_values: Mapping[str, str] = field(default_factory=dict)
    """What `${runner.…}` in a blueprint stands for."""
    secret_values: Mapping[str, str] = field(default_factory=dict)
    """What is taken out of the run's events beside the secrets of its environment, by name."""
    schema_version: str = str(CURRENT)
    """The version of the invocation: one that the executor lists."""
    is_resolved: bool = False
    """Whether only `${runner.…}` is left to fill in."""
    first_parameters: JsonObject | None = None
    """The parameters of the session's first run, which a resume's blueprint was written for; None in that run."""
    refusal: Ending | None = None
    """Why the run cannot be performed, where that is known beforehand."""

    @property
    def wants_to_stay(self) -> bool:
        """Whether the process shall wait for the session's next run."""
        return self.simulation is None and self.profile is not None and self.profile.lifecycle == "persistent"


def new_run_id() -> str:
    """Return an id that no other run has."""
    return f"run_{secrets.token_hex(8)}"


def new_session_id() -> str:
    """Return an id that no other session has."""
    return f"ses_{secrets.token_hex(8)}"


def invocation_of(request: RunRequest) -> JsonObject:
    """Return the invocation that begins the run (SPEC 4), for an executor that keeps output contracts.

    Its `prompt` is absent where the agent is procedural, and where the parameters, which are refused then, have none.
    """
    session, run = request.session, request.run
    limits = Limits(
        timeout_seconds=request.timeout_seconds,
        max_turns=request.max_turns,
        max_cost_usd=request.max_cost_usd,
        max_event_bytes=request.max_event_bytes,
        heartbeat_interval_seconds=request.heartbeat_seconds,
        cancel_grace_seconds=request.graces.terminate_seconds,
    )
    document: JsonObject = {
        "schema_version": request.schema_version,
        "mode": run.mode,
        "run_id": run.run_id,
        "session_id": session.session_id,
        "parameters": run.parameters,
        "agent_name": session.agent_name,
        "agent_blueprint": {name: value for name, value in session.blueprint.items() if value is not None},
        "project_dir": session.project_dir,
        "executor_config": session.executor_config,
        "limits": limits.model_dump(exclude_none=True),
        "control": {"stdin": "open", "turns": True} if request.wants_to_stay else {"stdin": "open"},
        "metadata": request.metadata,
        **contract_fields(run),
    }
    if (prompt := _prompt_of(request)) is not None:
        document["prompt"] = prompt
    if run.mode == "resume":
        document["executor_session_id"] = session.executor_session_id
    return document


def _prompt_of(request: RunRequest) -> str | None:
    blueprint, parameters = request.session.blueprint, request.run.parameters
    has_schema = request.run.mode == "start" and blueprint.get("parameters_schema") is not None
    if blueprint.get("type") == "procedural" or not (has_schema or parameters.get("prompt")):
        return None
    return text_for_agent(parameters, has_schema=has_schema)


DEFAULT_EXECUTORS: Final[Mapping[str, str]] = {"autonomous": "claude-code", "procedural": "procedural"}
"""Who performs the agents of which type, where nobody says."""


def request_under(
    profile: Profile,
    session: Session,
    run: Run,
    *,
    timeout_seconds: float | None = None,
    metadata: JsonObject | None = None,
    environ: Mapping[str, str],
) -> RunRequest:
    """Return the request for a run by the executor of a profile; the shorter of two time limits counts.

    Raises:
        ExecutorNotFound: the profile's executor is not there.
    """
    limits = profile.limits
    times = [seconds for seconds in (timeout_seconds, limits.timeout_seconds) if seconds is not None]
    executor = locate_executor(profile.executor)
    session = replace(
        session,
        executor_name=executor.name,
        executor_path=str(executor.path),
        executor_config={**profile.config, **session.executor_config},
        blueprint=without_default(session.blueprint, run),
    )
    return RunRequest(
        session=session,
        run=run,
        executor=executor,
        environ=environ,
        timeout_seconds=min(times, default=None),
        start_seconds=limits.start_seconds or START_SECONDS,
        idle_seconds=limits.idle_seconds,
        drain_seconds=limits.drain_seconds or DRAIN_SECONDS,
        max_turns=limits.max_turns,
        max_cost_usd=limits.max_cost_usd,
        max_event_bytes=limits.max_event_bytes or MAX_EVENT_BYTES,
        metadata=metadata or {},
        keeps_rejected_answers=keeps_rejected_answers(run),
        profile=profile,
    )


def refused_request(
    name: str, session: Session, run: Run, error: RunnerError, environ: Mapping[str, str]
) -> RunRequest:
    """Return the request for a run that cannot be performed here, so that it ends as any other does."""
    return RunRequest(session, run, Executor(name, Path(name)), environ, refusal=NotFound(str(error)))


def with_commands_folder(config: JsonObject, loaded: LoadedBlueprint) -> JsonObject:
    """Return the configuration; a procedural agent finds its command beside its blueprint, unless told otherwise."""
    if loaded.blueprint.type != "procedural" or "commands_dir" in config:
        return config
    return {**config, "commands_dir": str(loaded.path.resolve().parent)}


def environment_of(request: RunRequest, description: Description) -> dict[str, str]:
    """Return the whole environment of an executor: what everyone gets, what it names, what its profile adds.

    Raises:
        OwnCredentialGiven: a credential of the runner would be in it.
    """
    environment = executor_environment(request.environ, description, request.simulation)
    if request.profile is not None and request.simulation is not None:
        environment |= request.profile.environment.set
    elif request.profile is not None:
        environment |= profile_environment(request.profile, request.environ)
    refuse_own_credentials(environment, request.environ)
    return environment


def redactor_of(request: RunRequest, description: Description, environment: Mapping[str, str]) -> Redactor:
    """Return what takes out the secrets that the executor and its profile name, and those of the run."""
    if request.simulation is not None:
        return NO_SECRETS  # the key is a made-up one
    secrets = [*description.secrets, *(request.profile.secrets if request.profile else ())]
    return Redactor({**secrets_of(environment, secrets), **request.secret_values})
