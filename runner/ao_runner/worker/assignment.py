"""Turn an assignment into the request for a run, with the profiles of this host."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ao_protocol.errors import ErrorType
from ao_runner.blueprints.loading import load_blueprint, understand_blueprint
from ao_runner.coordinators.port import Assignment
from ao_runner.discovery import locate_executor
from ao_runner.errors import RunnerError
from ao_runner.home import WORKSPACES
from ao_runner.model_script import SimulatorFailed, play_stored_script
from ao_runner.profiles import Profile, load_profile
from ao_runner.runs.input_requests import InputRequests
from ao_runner.runs.run_request import (
    CannotStart,
    GracePeriods,
    RunRequest,
    Served,
    Simulation,
    refused,
    refused_request,
    request_under,
)
from ao_runner.runs.submission import DEFAULT_EXECUTORS, NewRun, Reception, accept


class Hosting(Protocol):
    """Provides runs with a service for as long as they last."""

    def serving(self, assignment: Assignment, known: Mapping[str, str]) -> AbstractAsyncContextManager[Served]:
        """Return a context manager that yields what a run gets besides the `known` values of `${runner.…}`.

        Raises:
            CannotStart: The service cannot be provided.
        """


@dataclass(frozen=True, slots=True)
class Host:
    """What the host of a worker provides for runs."""

    home: Path
    environ: Mapping[str, str]
    profile: str | None = None
    """The profile of runs that name none."""
    runner_values: Mapping[str, str] = field(default_factory=dict)
    """The values of `${runner.…}` in blueprints."""
    hosting: Hosting | None = None
    keeps_rejected_answers: bool = True
    """Whether rejected answers are stored, if the caller of the run allows it."""
    _profiles: dict[str, Profile] = field(default_factory=dict)

    def find_profile(self, name: str) -> Profile:
        """Return a profile. A worker reads each file once, so that all its runs have the same settings.

        Raises:
            RunnerError: there is none of that name, or it is not valid.
        """
        if name not in self._profiles:
            self._profiles[name] = load_profile(name, self.home, self.environ)
        return self._profiles[name]

    def profile_of(self, assignment: Assignment) -> Profile:
        """Return the profile that performs a run; raises as `find_profile` does."""
        return self.find_profile(self.profile_name_of(assignment))

    def profile_name_of(self, assignment: Assignment) -> str:
        """Return the profile's name: the run's, else this host's, else the default executor of the agent's type."""
        blueprint_type = str(assignment.session.blueprint.get("type") or "autonomous")
        return assignment.run.profile or self.profile or DEFAULT_EXECUTORS.get(blueprint_type, blueprint_type)


def order_ahead(profile: Profile, host: Host) -> RunRequest:
    """Return the request for a run ahead of any assignment: of the agent that the profile expects, in this folder.

    Raises:
        RunnerError: the executor is not there, or the blueprint cannot be read.
    """
    path = None if profile.warm is None or profile.warm.blueprint is None else Path(profile.warm.blueprint)
    no_agent = understand_blueprint(Path("blueprint"), {"name": "agent"})
    blueprint = no_agent if path is None else load_blueprint(path, may_wait=False)
    expected = NewRun(parameters={}, blueprint=blueprint, executor=locate_executor(profile.executor))
    accepted = accept(expected, Reception(host.environ, host.home, str(Path.cwd()), is_queued=False))
    return request_under(
        profile,
        accepted.session,
        accepted.run,
        keeps_rejected_answers=host.keeps_rejected_answers,
        environ=host.environ,
    )


@asynccontextmanager
async def served_order(
    assignment: Assignment,
    host: Host,
    note: Callable[[str], None] = lambda _: None,
    inputs: InputRequests | None = None,
) -> AsyncIterator[RunRequest]:
    """Yield the request for a run, and provide its services until the block ends.

    If the run cannot be performed here, the request holds the reason. `note` receives remarks.
    """
    session, run, name = assignment.session, assignment.run, host.profile_name_of(assignment)
    simulation, served = None, Served()
    async with AsyncExitStack() as serving:
        try:
            profile = host.find_profile(name)
            if run.model_script is not None:
                playing = simulated(run.model_script, host, note)
                simulation = await serving.enter_async_context(playing)
            if host.hosting is not None:
                served = await serving.enter_async_context(host.hosting.serving(assignment, host.runner_values))
            seconds = assignment.terminate_seconds
            request = request_under(
                profile,
                session,
                run,
                timeout_seconds=run.timeout_seconds,
                metadata=run.metadata,
                keeps_rejected_answers=host.keeps_rejected_answers,
                environ=host.environ,
                simulation=simulation,
                runner_values={**host.runner_values, **served.values},
                secret_values=served.secrets,
                first_parameters=assignment.first_parameters,
                is_resolved=assignment.is_resolved,
                inputs=inputs,
                grace_periods=GracePeriods() if seconds is None else GracePeriods(terminate_seconds=seconds),
                workspaces=host.home / WORKSPACES,
            )
        except CannotStart as error:
            request = refused_request(name, session, run, error.failure, host.environ)
        except RunnerError as error:
            refusal = refused(ErrorType.EXECUTOR_NOT_FOUND, str(error), origin="environment").failure
            request = refused_request(name, session, run, refusal, host.environ)
        yield request


@asynccontextmanager
async def simulated(script: str, host: Host, note: Callable[[str], None]) -> AsyncIterator[Simulation]:
    """Yield a simulator that plays the script until the block ends.

    `note` receives a sentence if the model received requests that the script does not expect.

    Raises:
        CannotStart: The simulator does not start.
    """
    playing = play_stored_script(script, host.home, host.environ)
    starting = asyncio.ensure_future(asyncio.to_thread(playing.__enter__))
    try:
        try:
            running = await asyncio.shield(starting)
        except (SimulatorFailed, OSError) as error:
            raise refused(ErrorType.INTERNAL_ERROR, f"no simulated model: {error}") from error
        yield running.simulation
    finally:
        await asyncio.wait([starting])
        if not starting.cancelled() and starting.exception() is None:
            await asyncio.to_thread(playing.__exit__, None, None, None)
    if running.report:
        note(f"the model received requests that its script does not expect: {running.report}")
