"""What was asked: one run of a session by an executor, its limits, and the invocation and environment that follow.

The environment is a list of what goes in. Whatever is not named stays out (SPEC 11.1, AOX-231).
"""

import asyncio
import secrets
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ao_protocol.contracts.contract import USUAL_DEFAULTS, OptionDefaults
from ao_protocol.documents import Description, Limits
from ao_protocol.errors import ErrorType
from ao_protocol.events import Failure
from ao_protocol.inputs import text_for_agent
from ao_protocol.redaction import NO_SECRETS, SHORTEST_SECRET, Redactor
from ao_protocol.version import CURRENT
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import LoadedBlueprint
from ao_runner.discovery import Executor, locate_executor
from ao_runner.errors import RunnerError
from ao_runner.profiles import RUNNERS_OWN, Profile, profile_environment
from ao_runner.store.records import Run, Session

START_SECONDS: Final = 10.0
"""From the invocation to `run_started`, where nobody says (SPEC 11.2)."""
DRAIN_SECONDS: Final = 1.0
"""From the end of the process to the end of its pipes, where nobody says."""
MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""More than the protocol's default, so that a long answer arrives whole."""


@dataclass(frozen=True, slots=True)
class GracePeriods:
    """How long each step waits for the process to end before the next one."""

    ask_seconds: float = 5.0
    close_stdin_seconds: float = 1.0
    leave_seconds: float = 5.0
    """After a terminal event, instead of `close_stdin_seconds` (SPEC 5: exit within 5 s of it)."""
    terminate_seconds: float = 10.0
    kill_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Simulation:
    """A model simulator that stands in for the model, and the folder that stands in for the person's home."""

    url: str
    home: Path
    base_urls: Mapping[str, str] = field(default_factory=dict)
    """The address by kind of API, as that API's own clients expect it; the plain one where a kind is not there."""


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
    grace_periods: GracePeriods = field(default_factory=GracePeriods)
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
    refusal: Failure | None = None
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
        cancel_grace_seconds=request.grace_periods.terminate_seconds,
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
    refusal = refused(ErrorType.EXECUTOR_NOT_FOUND, str(error), origin="environment").failure
    return RunRequest(session, run, Executor(name, Path(name)), environ, refusal=refusal)


def with_commands_folder(config: JsonObject, loaded: LoadedBlueprint) -> JsonObject:
    """Return the configuration; a procedural agent finds its command beside its blueprint, unless told otherwise."""
    if loaded.blueprint.type != "procedural" or "commands_dir" in config:
        return config
    return {**config, "commands_dir": str(loaded.path.resolve().parent)}


def not_keeping_rejected_answers(record: JsonObject | None) -> JsonObject:
    """Return the record of a run's demand whose caller does not want rejected answers to be stored."""
    return {**(record or {}), "keep_rejected": False}


def keeps_rejected_answers(run: Run) -> bool:
    """Tell whether the caller of a run lets rejected answers be stored."""
    return (run.contract or {}).get("keep_rejected") is not False


def without_default(blueprint: JsonObject, run: Run) -> JsonObject:
    """Return the blueprint of a run, without its default contract where the caller wants none."""
    if run.contract is None or run.contract.get("source") != "none":
        return blueprint
    return {name: value for name, value in blueprint.items() if not name.startswith("default_output_schema")}


def contract_fields(run: Run) -> JsonObject:
    """Return what an invocation says of the contract to an executor that keeps it."""
    record: Mapping[str, Any] = run.contract or {}
    fields: JsonObject = {}
    if "schema" in record:
        fields |= {"output_schema": record["schema"], "output_schema_source": record["source"]}
    if record.get("options"):
        fields["output_schema_options"] = record["options"]
    return fields


class CannotStart(Exception):
    """A run is over before it had a process, or before it had another one; `failure` is its end."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error.message)
        self.failure = failure


def refused(error_type: ErrorType, message: str, **facts: Any) -> CannotStart:  # noqa: ANN401  # those of `failed`
    """Return what ends a run as refused, as its executor would have to; `facts` are those of `outcome.failed`."""
    from ao_runner.runs.outcome import failed  # only now: hardly any run needs it before its executor has been told

    return CannotStart(failed(error_type, message, **{"origin": "caller", "side_effects": "none", **facts}))


PASSED_ALWAYS: Final = ("PATH", "HOME", "LANG", "TZ", "TMPDIR")
SIMULATED_KEY: Final = "sk-ant-model-sim"
"""No credential: some clients refuse to start without a key."""

_LOCALE_IN_ORDER: Final = ("LC_ALL", "LC_CTYPE", "LANG")


@dataclass(eq=False)
class OwnCredentialGiven(RunnerError):
    """An executor would get a credential of the runner under another name."""

    variable: str
    own: str

    def __str__(self) -> str:
        return (
            f"{self.variable} holds the value of {self.own}, which is the runner's own and which no executor gets; "
            "give it another value, or take it out of the profile"
        )


def bare_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what every executor gets. LANG says the locale that counts, wherever it was set."""
    passed = {name: environ[name] for name in PASSED_ALWAYS if name in environ}
    locale = next((environ[name] for name in _LOCALE_IN_ORDER if environ.get(name)), None)
    return passed if locale is None else passed | {"LANG": locale}


def executor_environment(
    environ: Mapping[str, str], description: Description, simulation: Simulation | None = None
) -> dict[str, str]:
    """Return the whole environment of a run: the bare one and what the description names.

    With a simulation, nothing of the person's own goes in: neither their key and settings nor their home.
    """
    if simulation is not None:
        variables = {"HOME": str(simulation.home)}
        for kind, endpoint in description.model_endpoint.items():
            variables[endpoint.env] = simulation.base_urls.get(kind, simulation.url)
            if endpoint.api_key_env is not None:
                variables[endpoint.api_key_env] = SIMULATED_KEY
        return {**bare_environment(environ), **variables}
    named = {*description.secrets, *description.environment} - RUNNERS_OWN
    return {**bare_environment(environ), **{name: environ[name] for name in named if name in environ}}


def refuse_own_credentials(environment: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Refuse the environment of an executor that holds a credential of the runner, whose environment is `environ`.

    Raises:
        OwnCredentialGiven: naming the variable.
    """
    credentials = {own: value for own in RUNNERS_OWN if (value := environ.get(own, "").strip())}
    for own, credential in credentials.items():
        for name, value in environment.items():
            if value == credential or (len(credential) >= SHORTEST_SECRET and credential in value):
                raise OwnCredentialGiven(name, own)


def secrets_of(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the secrets that stand in an environment, by name."""
    return {name: environment[name] for name in names if name in environment}


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


class StopRequests:
    """Counts the wishes to stop one run. The first asks, the second kills."""

    def __init__(self) -> None:
        self.count = 0
        self.reason = "user"
        """Why it was wished first, as the `cancel` line says it (SPEC 4.4)."""
        self.is_fenced = False
        """Whether the run has to end because it is not this process's any more."""
        self._listener: Callable[[], object] | None = None

    def request(self, reason: str = "user") -> None:
        """Wish it, on the thread of the event loop."""
        if not self.count:
            self.reason = reason
        self.count += 1
        if self._listener is not None:
            self._listener()

    def fence(self) -> None:
        """End it without asking: somebody else may begin the same run soon."""
        self.is_fenced = True
        self.request()

    @contextmanager
    def told_to(self, listener: Callable[[], object]) -> Iterator[None]:
        """Have `listener` called for each request inside the `with` block, at once if there was one before."""
        self._listener = listener
        try:
            if self.count > 0:
                listener()
            yield
        finally:
            self._listener = None


@contextmanager
def on_signals(request: Callable[[], None]) -> Iterator[None]:
    """Call `request` for each Ctrl-C and SIGTERM, and for a hang-up. Inside the `with` block they do nothing else.

    A hang-up counts once, since a terminal that closes sends several, and not at all where it is ignored (nohup).
    Only on the main thread, and while its event loop runs.
    """
    loop = asyncio.get_running_loop()
    hang_ups = 0

    def hang_up() -> None:
        nonlocal hang_ups
        hang_ups += 1
        if hang_ups == 1:
            request()

    handlers = {signal.SIGINT: request, signal.SIGTERM: request}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handlers[signal.SIGHUP] = hang_up
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
