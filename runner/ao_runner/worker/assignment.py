"""Turn an assignment into the request for a run, with the profiles of this host."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from ao_protocol.errors import ErrorType
from ao_runner.blueprints.loading import load_object
from ao_runner.coordinators.port import Assignment
from ao_runner.errors import RunnerError
from ao_runner.home import WORKSPACES
from ao_runner.model_script import SimulatorFailed, play_stored_script
from ao_runner.profiles import Profile, load_profile
from ao_runner.runs.run_request import DEFAULT_EXECUTORS, RunRequest, refused, refused_request, request_under
from ao_runner.store.records import Run, Session


class Hosting(Protocol):
    """Provides runs with a service for as long as they last."""

    def serving(self, order: RunRequest) -> AbstractAsyncContextManager[RunRequest]:
        """Return a context manager that yields the request, extended by what the run needs to reach the service."""


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
        return assignment.profile or self.profile or DEFAULT_EXECUTORS.get(blueprint_type, blueprint_type)


def order_ahead(profile: Profile, host: Host) -> RunRequest:
    """Return the request for a run ahead of any assignment: of the agent that the profile expects, in this folder.

    Raises:
        RunnerError: the executor is not there, or the blueprint cannot be read.
    """
    expected = profile.warm.blueprint if profile.warm is not None else None
    blueprint = {} if expected is None else load_object(Path(expected), may_wait=False)
    session = Session("", "", profile.executor, profile.executor, str(Path.cwd()), blueprint)
    order = request_under(profile, session, Run("", "", "start", {}, ""), environ=host.environ)
    return replace(order, keeps_rejected_answers=host.keeps_rejected_answers)


@asynccontextmanager
async def served_order(
    assignment: Assignment, host: Host, note: Callable[[str], None] = lambda _: None
) -> AsyncIterator[RunRequest]:
    """Yield the request for a run, and provide its services until the block ends. `note` receives remarks."""
    order = order_for(assignment, host)
    async with AsyncExitStack() as serving:
        if assignment.model_script is not None and order.refusal is None:
            order = await serving.enter_async_context(simulated(order, assignment.model_script, host.home, note))
        if host.hosting is not None and order.refusal is None:
            order = await serving.enter_async_context(host.hosting.serving(order))
        yield order


def order_for(assignment: Assignment, host: Host) -> RunRequest:
    """Return the request for a run. If it cannot be performed here, the request holds the reason."""
    session = assignment.session
    name = host.profile_name_of(assignment)
    try:
        order = request_under(
            host.find_profile(name),
            session,
            assignment.run,
            timeout_seconds=assignment.timeout_seconds,
            metadata=assignment.metadata,
            environ=host.environ,
        )
    except RunnerError as error:
        return refused_request(name, session, assignment.run, error, host.environ)
    return replace(
        order,
        runner_values=host.runner_values,
        first_parameters=assignment.first_parameters,
        is_resolved=assignment.is_resolved,
        keeps_rejected_answers=order.keeps_rejected_answers and host.keeps_rejected_answers,
        workspaces=host.home / WORKSPACES,
    )


@asynccontextmanager
async def simulated(
    order: RunRequest, script: str, home: Path, note: Callable[[str], None]
) -> AsyncIterator[RunRequest]:
    """Yield the request with a simulator that plays the script until the block ends, or one that holds the reason.

    `note` receives a sentence if the model received requests that the script does not expect.
    """
    playing = play_stored_script(script, home, order.environ)
    starting = asyncio.ensure_future(asyncio.to_thread(playing.__enter__))
    try:
        try:
            running = await asyncio.shield(starting)
        except (SimulatorFailed, OSError) as error:
            yield replace(order, refusal=refused(ErrorType.INTERNAL_ERROR, f"no simulated model: {error}").failure)
            return
        yield replace(order, simulation=running.simulation)
    finally:
        await asyncio.wait([starting])
        if not starting.cancelled() and starting.exception() is None:
            await asyncio.to_thread(playing.__exit__, None, None, None)
    if running.report:
        note(f"the model received requests that its script does not expect: {running.report}")
