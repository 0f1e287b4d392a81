"""A run on its way to its executor, in stages: how this host performs it, and what the executor is given.

`RunRequest` is a run with the settings of the host that performs it. `ReadyRun` is the same after all checks, with the
invocation and the environment that follow from it and from the executor's description.

The environment is an allowlist. Every variable that is not listed is omitted (SPEC 11.1, AOX-231).
"""

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from ao_protocol.contracts.contract import OutputContract
from ao_protocol.documents import ATTACHMENTS_FEATURE, INPUT_FEATURE, Description
from ao_protocol.errors import ErrorType
from ao_protocol.events import Failure
from ao_protocol.inputs import text_for_agent
from ao_protocol.redaction import NO_SECRETS, SHORTEST_SECRET, Redactor
from ao_protocol.wire import JsonObject
from ao_runner.discovery import Executor, locate_executor
from ao_runner.errors import RunnerError
from ao_runner.processes.spawn import search_path
from ao_runner.profiles import RUNNERS_OWN, Profile, Sandbox, profile_environment
from ao_runner.runs.input_requests import InputRequests
from ao_runner.store.records import Run, Session

START_SECONDS: Final = 10.0
"""Default time from the invocation to `run_started` (SPEC 11.2)."""
DRAIN_SECONDS: Final = 1.0
"""Default time from the end of the process to the end of its pipes."""
MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""More than the protocol's default, so that a long answer arrives complete."""


@dataclass(frozen=True, slots=True)
class GracePeriods:
    """How long each step waits for the process to end before the next step."""

    ask_seconds: float = 5.0
    close_stdin_seconds: float = 1.0
    leave_seconds: float = 5.0
    """After a terminal event, instead of `close_stdin_seconds` (SPEC 5: exit within 5 s of it)."""
    terminate_seconds: float = 10.0
    kill_seconds: float = 5.0


class Simulation(NamedTuple):
    """A model simulator that replaces the model, and the folder that replaces the user's home."""

    url: str
    home: Path
    base_urls: Mapping[str, str] = {}
    """The address for each kind of API in the form its clients expect; `url` is the default."""


class Served(NamedTuple):
    """What a service of the host gives a run: values of `${runner.…}`, and those of them that are secret."""

    values: Mapping[str, str] = {}
    secrets: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run of a session by an executor, with its limits."""

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
    verify_results: bool = False
    """Whether the runner validates a result against a contract that the executor claims to enforce."""
    keeps_rejected_answers: bool = True
    """Whether answers that do not fit the contract are stored with the run."""
    profile: Profile | None = None
    """How the host runs the executor; the times and sizes above take precedence over it."""
    runner_values: Mapping[str, str] = field(default_factory=dict)
    """The values of `${runner.…}` placeholders in a blueprint."""
    secret_values: Mapping[str, str] = field(default_factory=dict)
    """Values by name to redact from the run's events, besides the secrets of its environment."""
    is_resolved: bool = False
    """Whether its coordinator has filled in all placeholders but `${runner.…}`."""
    first_parameters: JsonObject | None = None
    """The parameters of the session's first run, which fill in the blueprint of a resume; None in the first run."""
    inputs: InputRequests | None = None
    """The requests to a person, if every request will be answered."""
    refusal: Failure | None = None
    """Why the run cannot be performed, if that is known beforehand."""
    workspaces: Path | None = None
    """The folder for the workspaces of sessions."""

    @property
    def sandbox(self) -> Sandbox | None:
        """The sandbox of the profile."""
        return None if self.profile is None else self.profile.sandbox

    @property
    def wants_to_stay(self) -> bool:
        """Whether the process should wait for the session's next run."""
        return self.simulation is None and self.profile is not None and self.profile.lifecycle == "persistent"


class ReadyRun(NamedTuple):
    """A run that passed all checks, and what its executor is given."""

    request: RunRequest
    session: Session
    """The session, with a blueprint without placeholders, and with the folder of its workspace as project folder."""
    description: Description
    environment: Mapping[str, str]
    redactor: Redactor
    invocation: JsonObject
    inputs: InputRequests | None = None
    """The requests to a person, if the executor makes any and every request will be answered."""
    contract: OutputContract | None = None
    """The contract of the answer, with its strategy."""


def invocation_of(request: RunRequest, session: Session, version: str, *, has_inputs: bool) -> JsonObject:
    """Return the invocation that begins the run (SPEC 4), for an executor that enforces output contracts.

    `prompt` is absent for a procedural agent, and if the parameters lack it; such parameters are refused.

    Args:
        request: The run, and its limits on this host.
        session: Its session, with a blueprint without placeholders.
        version: The version of the invocation, one that the executor lists.
        has_inputs: Whether every request to a person will be answered.
    """
    run = request.run
    limits = {
        "timeout_seconds": request.timeout_seconds,
        "max_turns": request.max_turns,
        "max_cost_usd": request.max_cost_usd,
        "max_event_bytes": request.max_event_bytes,
        "heartbeat_interval_seconds": request.heartbeat_seconds,
        "cancel_grace_seconds": request.grace_periods.terminate_seconds,
    }
    document: JsonObject = {
        "schema_version": version,
        "mode": run.mode,
        "run_id": run.run_id,
        "session_id": session.session_id,
        "parameters": run.parameters,
        "agent_name": session.agent_name,
        "agent_blueprint": {name: value for name, value in session.blueprint.items() if value is not None},
        "project_dir": session.project_dir,
        "executor_config": session.executor_config,
        "limits": {name: limit for name, limit in limits.items() if limit is not None},
        "control": control_of(request, has_inputs=has_inputs),
        "metadata": request.metadata,
        **_contract_fields(run),
    }
    if (prompt := _prompt_of(session.blueprint, run)) is not None:
        document["prompt"] = prompt
    if run.mode == "resume":
        document["executor_session_id"] = session.executor_session_id
    if run.input_responses is not None:
        document |= {"input_responses": run.input_responses, "requires": [INPUT_FEATURE]}
    if run.attachments:
        document |= {"attachments": list(run.attachments), "requires": [ATTACHMENTS_FEATURE]}
    return document


def control_of(request: RunRequest, *, has_inputs: bool) -> JsonObject:
    """Return the invocation's `control`: which lines the executor may expect on stdin (SPEC 4.4)."""
    wanted = {"turns": request.wants_to_stay, "input": has_inputs}
    return {"stdin": "open", **{name: True for name, is_wanted in wanted.items() if is_wanted}}


def _prompt_of(blueprint: JsonObject, run: Run) -> str | None:
    parameters = run.parameters
    has_schema = run.mode == "start" and blueprint.get("parameters_schema") is not None
    if blueprint.get("type") == "procedural" or not (has_schema or parameters.get("prompt")):
        return None
    return text_for_agent(parameters, has_schema=has_schema)


def request_under(
    profile: Profile,
    session: Session,
    run: Run,
    *,
    timeout_seconds: float | None = None,
    metadata: JsonObject | None = None,
    keeps_rejected_answers: bool = True,
    **services: Any,  # noqa: ANN401  # further fields of a request, of which a caller sets few
) -> RunRequest:
    """Return the request for a run by the executor of a profile; the shorter of two time limits applies.

    `services` are the fields of the request that do not follow from profile and run.

    Raises:
        ExecutorNotFound: The profile's executor does not exist.
    """
    limits = profile.limits
    times = [seconds for seconds in (timeout_seconds, limits.timeout_seconds) if seconds is not None]
    executor = locate_executor(profile.executor)
    return RunRequest(
        session=replace(
            session,
            executor_name=executor.name,
            executor_path=str(executor.path),
            executor_config={**profile.settings, **session.executor_config},
            blueprint=_without_default(session.blueprint, run),
        ),
        run=run,
        executor=executor,
        timeout_seconds=min(times, default=None),
        start_seconds=limits.start_seconds or START_SECONDS,
        idle_seconds=limits.idle_seconds,
        drain_seconds=limits.drain_seconds or DRAIN_SECONDS,
        max_turns=limits.max_turns,
        max_cost_usd=limits.max_cost_usd,
        max_event_bytes=limits.max_event_bytes or MAX_EVENT_BYTES,
        metadata=metadata or {},
        keeps_rejected_answers=keeps_rejected_answers and (run.contract or {}).get("keep_rejected") is not False,
        profile=profile,
        **services,
    )


def refused_request(name: str, session: Session, run: Run, refusal: Failure, environ: Mapping[str, str]) -> RunRequest:
    """Return the request for a run that cannot be performed here, so that it ends like any other run."""
    return RunRequest(session, run, Executor(name, Path(name)), environ, refusal=refusal)


def _without_default(blueprint: JsonObject, run: Run) -> JsonObject:
    """Return the blueprint of a run, without its default contract if the caller wants no contract."""
    if run.contract is None or run.contract.get("source") != "none":
        return blueprint
    return {name: value for name, value in blueprint.items() if not name.startswith("default_output_schema")}


def _contract_fields(run: Run) -> JsonObject:
    """Return the invocation fields of the contract for an executor that enforces it."""
    record: Mapping[str, Any] = run.contract or {}
    fields: JsonObject = {}
    if "schema" in record:
        fields |= {"output_schema": record["schema"], "output_schema_source": record["source"]}
    if record.get("options"):
        fields["output_schema_options"] = record["options"]
    return fields


class CannotStart(Exception):
    """A run ended before it had a process, or before it had its next one; `failure` is its end."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error.message)
        self.failure = failure


class WorkFolder(NamedTuple):
    """The folder that a run works in, or why there is none. `learn_secrets` is given the redactor of the run."""

    path: str
    refusal: CannotStart | None = None
    learn_secrets: Callable[[Redactor], object] = lambda _: None


def refused(error_type: ErrorType, message: str, **facts: Any) -> CannotStart:  # noqa: ANN401  # those of `failed`
    """Return the error that ends a run as refused, as an executor would refuse it; see `outcome.failed` for `facts`."""
    from ao_runner.runs.outcome import failed  # late: hardly any run needs it before its invocation is written

    return CannotStart(failed(error_type, message, **{"origin": "caller", "side_effects": "none", **facts}))


PASSED_ALWAYS: Final = ("PATH", "HOME", "LANG", "TZ", "TMPDIR")
SIMULATED_KEY: Final = "sk-ant-model-sim"
"""A dummy key: some clients refuse to start without one."""

_LOCALE_IN_ORDER: Final = ("LC_ALL", "LC_CTYPE", "LANG")


@dataclass(eq=False)
class OwnCredentialGiven(RunnerError):
    """An executor would receive a credential of the runner under another name."""

    variable: str
    own: str

    def __str__(self) -> str:
        return (
            f"{self.variable} holds the value of {self.own}, which is the runner's own and which no executor gets; "
            "give it another value, or take it out of the profile"
        )


def bare_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that every executor gets. LANG holds the effective locale, whichever variable set it."""
    passed = {name: environ[name] for name in PASSED_ALWAYS if name in environ}
    locale = next((environ[name] for name in _LOCALE_IN_ORDER if environ.get(name)), None)
    return passed if locale is None else passed | {"LANG": locale}


def executor_environment(
    environ: Mapping[str, str], description: Description, simulation: Simulation | None = None
) -> dict[str, str]:
    """Return the environment of a run: the bare one and the variables in the description.

    With a simulation, nothing of the user's own is included: no key, no settings and no home.
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
    """Refuse an executor environment that holds a credential of the runner, whose own environment is `environ`.

    Raises:
        OwnCredentialGiven: The environment holds one; the error names the variable.
    """
    credentials = {own: value for own in RUNNERS_OWN if (value := environ.get(own, "").strip())}
    for own, credential in credentials.items():
        for name, value in environment.items():
            if value == credential or (len(credential) >= SHORTEST_SECRET and credential in value):
                raise OwnCredentialGiven(name, own)


@dataclass(eq=False)
class SandboxNotThere(RunnerError):
    """The program of a sandbox is not on PATH."""

    profile: str
    program: str

    def __str__(self) -> str:
        return (
            f"the sandbox of the profile {self.profile!r} needs {self.program!r}, which is not on PATH outside of the "
            "project; install it, or correct sandbox.command"
        )


def sandboxed(
    request: RunRequest, project_dir: str, environment: Mapping[str, str], tmp: Path | None = None
) -> Executor:
    """Return the executor with the command of the profile's sandbox; `tmp` is its folder for temporary files.

    Raises:
        SandboxNotThere: The command is not on the PATH of the environment, or only in the project.
    """
    if request.profile is None:
        return request.executor
    return confined(request.executor, request.profile, project_dir, environment, tmp)


def confined(
    executor: Executor, profile: Profile, project_dir: str, environment: Mapping[str, str], tmp: Path | None = None
) -> Executor:
    """Return an executor with the command of the profile's sandbox for a project folder; see `sandboxed`."""
    if profile.sandbox is None:
        return executor
    home, temporary = environment.get("HOME", "/"), environment.get("TMPDIR") or tempfile.gettempdir()
    prefix = profile.sandbox.prefix(project_dir=project_dir, home=home, tmp=str(tmp or temporary))
    program = shutil.which(prefix[0], path=search_path(environment, project_dir))
    if program is None:
        raise SandboxNotThere(profile.name, prefix[0])
    return executor._replace(prefix=(program, *prefix[1:]))


def secrets_of(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the named secrets that an environment contains."""
    return {name: environment[name] for name in names if name in environment}


def environment_of(request: RunRequest, description: Description) -> dict[str, str]:
    """Return the whole environment of an executor: the bare one, the variables of its description and of its profile.

    Raises:
        OwnCredentialGiven: It would contain a credential of the runner.
    """
    environment = executor_environment(request.environ, description, request.simulation)
    if request.profile is not None and request.simulation is not None:
        environment |= request.profile.environment.set
    elif request.profile is not None:
        environment |= profile_environment(request.profile, request.environ)
    refuse_own_credentials(environment, request.environ)
    return environment


def redactor_of(request: RunRequest, description: Description, environment: Mapping[str, str]) -> Redactor:
    """Return the redactor for the secrets of the executor, of its profile and of the run."""
    if request.simulation is not None:
        return NO_SECRETS  # the key is a dummy
    secrets = [*description.secrets, *(request.profile.secrets if request.profile else ())]
    return Redactor({**secrets_of(environment, secrets), **request.secret_values})


class StopRequests:
    """Counts the requests to stop one run. The first asks the executor to stop, the second kills it."""

    def __init__(self) -> None:
        self.count = 0
        self.reason = "user"
        """The reason of the first request, as sent in the `cancel` line (SPEC 4.4)."""
        self.is_fenced = False
        """Whether the run has to end because this process no longer owns it."""
        self._listener: Callable[[], object] | None = None

    def request(self, reason: str = "user") -> None:
        """Request a stop; call it on the thread of the event loop."""
        if not self.count:
            self.reason = reason
        self.count += 1
        if self._listener is not None:
            self._listener()

    def fence(self) -> None:
        """End the run without asking the executor, because another process may soon begin the same run."""
        self.is_fenced = True
        self.request()

    def refusal(self) -> CannotStart:
        """Return the error that ends a run for which a stop was requested before its executor was started."""
        if self.is_fenced:
            message = "the worker could not reach its coordinator before it started the executor"
            return refused(ErrorType.ATTEMPT_LOST, message, origin="runner")
        return refused(ErrorType.CANCELLED, "cancelled before the executor was started")

    @contextmanager
    def told_to(self, listener: Callable[[], object]) -> Iterator[None]:
        """Call `listener` for each request inside the `with` block, and immediately if there was one before."""
        self._listener = listener
        try:
            if self.count > 0:
                listener()
            yield
        finally:
            self._listener = None


@contextmanager
def on_signals(request: Callable[[], None]) -> Iterator[None]:
    """Call `request` for each SIGINT and SIGTERM and for SIGHUP, instead of their default action, in the `with` block.

    SIGHUP counts once, since a closing terminal sends several, and not at all if it is ignored (nohup).
    Use it only on the main thread, while its event loop runs.
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
