"""What one run is asked for, and the invocation that asks for it."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ao_protocol.contracts.contract import USUAL_DEFAULTS, OptionDefaults
from ao_protocol.documents import Limits
from ao_protocol.inputs import text_for_agent
from ao_protocol.version import CURRENT
from ao_protocol.wire import JsonObject
from ao_runner.discovery.locate import Executor
from ao_runner.profiles import Profile
from ao_runner.runs.contracts import contract_fields
from ao_runner.runs.environment import Simulation
from ao_runner.runs.outcome import Ending
from ao_runner.runs.stopping import Graces
from ao_runner.runs.timeouts import DRAIN_SECONDS, START_SECONDS
from ao_runner.store.records import Run, Session

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""More than the protocol's default, so that a long answer arrives whole."""


@dataclass(frozen=True, slots=True)
class RunOrder:
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
    graces: Graces = field(default_factory=Graces)
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


def invocation_of(order: RunOrder) -> JsonObject:
    """Return the invocation that begins the run (SPEC 4), for an executor that keeps output contracts.

    Its `prompt` is absent where the agent is procedural, and where the parameters, which are refused then, have none.
    """
    session, run = order.session, order.run
    limits = Limits(
        timeout_seconds=order.timeout_seconds,
        max_turns=order.max_turns,
        max_cost_usd=order.max_cost_usd,
        max_event_bytes=order.max_event_bytes,
        heartbeat_interval_seconds=order.heartbeat_seconds,
        cancel_grace_seconds=order.graces.terminate_seconds,
    )
    document: JsonObject = {
        "schema_version": order.schema_version,
        "mode": run.mode,
        "run_id": run.run_id,
        "session_id": session.session_id,
        "parameters": run.parameters,
        "agent_name": session.agent_name,
        "agent_blueprint": {name: value for name, value in session.blueprint.items() if value is not None},
        "project_dir": session.project_dir,
        "executor_config": session.executor_config,
        "limits": limits.model_dump(exclude_none=True),
        "control": {"stdin": "open", "turns": True} if order.wants_to_stay else {"stdin": "open"},
        "metadata": order.metadata,
        **contract_fields(run),
    }
    if (prompt := _prompt_of(order)) is not None:
        document["prompt"] = prompt
    if run.mode == "resume":
        document["executor_session_id"] = session.executor_session_id
    return document


def _prompt_of(order: RunOrder) -> str | None:
    blueprint, parameters = order.session.blueprint, order.run.parameters
    has_schema = order.run.mode == "start" and blueprint.get("parameters_schema") is not None
    if blueprint.get("type") == "procedural" or not (has_schema or parameters.get("prompt")):
        return None
    return text_for_agent(parameters, has_schema=has_schema)
