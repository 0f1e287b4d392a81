"""From an assignment to the order of a run, by the profiles of this host."""

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
from ao_runner.model_script import SimulatorFailed, play_stored_script
from ao_runner.profiles import Profile, load_profile
from ao_runner.runs.run_request import DEFAULT_EXECUTORS, RunRequest, refused, refused_request, request_under
from ao_runner.store.records import Run, Session


class Hosting(Protocol):
    """Serves runs with something for as long as they last."""

    def serving(self, order: RunRequest) -> AbstractAsyncContextManager[RunRequest]:
        """Return what yields the order with all that it needs to find what is served."""


@dataclass(frozen=True, slots=True)
class Host:
    """What the host of a worker gives to runs."""

    home: Path
    environ: Mapping[str, str]
    profile: str | None = None
    """For runs that name none."""
    runner_values: Mapping[str, str] = field(default_factory=dict)
    """What `${runner.…}` in blueprints stands for."""
    hosting: Hosting | None = None
    keeps_rejected_answers: bool = True
    """Whether answers that do not fit a contract are stored, where the run's caller lets them."""
    _profiles: dict[str, Profile] = field(default_factory=dict)

    def find_profile(self, name: str) -> Profile:
        """Return a profile; a file is read once in a worker's life, so that all of its runs are run alike.

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
        """Return its name: that of the run, else that of this host, else the usual executor of the agent's type."""
        blueprint_type = str(assignment.session.blueprint.get("type") or "autonomous")
        return assignment.profile or self.profile or DEFAULT_EXECUTORS.get(blueprint_type, blueprint_type)


def order_ahead(profile: Profile, host: Host) -> RunRequest:
    """Return the order for a run that nobody has asked for yet: of the agent that the profile expects, in this folder.

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
    """Yield the order for a run, and serve the run with what it asks for until the block ends; `note` gets remarks."""
    order = order_for(assignment, host)
    async with AsyncExitStack() as serving:
        if assignment.model_script is not None and order.refusal is None:
            order = await serving.enter_async_context(simulated(order, assignment.model_script, host.home, note))
        if host.hosting is not None and order.refusal is None:
            order = await serving.enter_async_context(host.hosting.serving(order))
        yield order


def order_for(assignment: Assignment, host: Host) -> RunRequest:
    """Return the order for a run; one that cannot be performed here becomes an order that says why."""
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
    )


@asynccontextmanager
async def simulated(
    order: RunRequest, script: str, home: Path, note: Callable[[str], None]
) -> AsyncIterator[RunRequest]:
    """Yield the order with a simulator that plays the script until the block ends, or an order that says why not.

    `note` gets a sentence when the model received requests that the script does not expect.
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
