"""The steps of one run: check, describe, check against the description, environment, attempts, terminal event, record.

Every run ends with exactly one terminal event. An executor that enforces output contracts gets one attempt; for any
other executor the runner enforces the contract and asks the same session again with a further attempt.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import JsonValue

from ao_protocol.documents import Description
from ao_protocol.errors import ErrorType
from ao_protocol.events import Terminal
from ao_protocol.redaction import NO_SECRETS, SHORTEST_SECRET, Redactor
from ao_protocol.wire import ExecutorIdentity
from ao_runner.discovery import DescribeFailed, ExecutorNotFound, locate_executor
from ao_runner.home import WORKSPACES
from ao_runner.processes.cleanup_journal import own_cleanup_journal, sweep_left_behind
from ao_runner.processes.containment import Containment, lifelines
from ao_runner.processes.judging import with_judge
from ao_runner.profiles import Profile, load_profile
from ao_runner.run_events import NOT_DESCRIBED, RunIdentity
from ao_runner.runs.acceptance import check_run, keeps_itself, ready_run
from ao_runner.runs.attempt import AttemptContext, ColdLauncher, Journal, Launcher, argv_of, new_conversation
from ao_runner.runs.journal import StoredJournal
from ao_runner.runs.run_request import (
    CannotStart,
    OwnCredentialGiven,
    RunRequest,
    SandboxNotThere,
    StopRequests,
    WorkFolder,
    bare_environment,
    environment_of,
    redactor_of,
    refused,
    request_under,
    sandboxed,
)
from ao_runner.runs.submission import AcceptedRun
from ao_runner.store.records import RunRecord, Session
from ao_runner.store.store import Store

MOST_VALUES: Final = 2000
MOST_CHARACTERS: Final = 100_000
"""A blueprint or schema within both limits is processed in a few milliseconds."""

Returned = TypeVar("Returned")


def request_here(
    accepted: AcceptedRun,
    profile: Profile,
    store: Store,
    home: Path,
    **services: Any,  # noqa: ANN401  # further fields of the request
) -> RunRequest:
    """Return the request for an accepted run that no worker performs; `services` as for `request_under`.

    Raises:
        ExecutorNotFound: The profile's executor does not exist.
    """
    run = accepted.run
    return request_under(
        profile,
        accepted.session,
        run,
        timeout_seconds=run.timeout_seconds,
        metadata=run.metadata,
        environ=os.environ,
        first_parameters=store.runs.first(run.session_id).parameters if run.mode == "resume" else None,
        workspaces=home / WORKSPACES,
        **services,
    )


def profile_to_continue(session: Session, name: str | None, home: Path) -> Profile:
    """Return the profile with a name, else that of the session's executor, which may have moved."""
    if name is not None:
        return load_profile(name, home, os.environ)
    try:
        path = locate_executor(session.executor_path).path
    except ExecutorNotFound:
        path = locate_executor(session.executor_name).path
    return Profile.of_executor(session.executor_name, str(path))


@asynccontextmanager
async def launching(
    home: Path, owner: str, note: Callable[[str], object], containment: Containment
) -> AsyncIterator[Launcher]:
    """Yield the launcher of runs that no worker performs, after the remains of killed runners were cleaned up."""
    if swept := sweep_left_behind(home, note):
        note(f"cleaned up after a killed runner: {swept}")
    if (home / WORKSPACES).is_dir():
        from ao_runner.runs.workspace import sweep_workspaces

        for sentence in await sweep_workspaces(home / WORKSPACES, os.environ):
            note(sentence)
    with own_cleanup_journal(home, owner, note) as cleanup, lifelines(containment) as lines:
        yield ColdLauncher(lines, cleanup)


async def perform_single_run(
    request: RunRequest, journal: StoredJournal, stops: StopRequests, home: Path, containment: Containment
) -> Terminal:
    """Perform a run that no worker performs, and return its terminal event, which is then stored.

    Raises:
        SessionBusy: The session has an unfinished run.
    """
    async with launching(home, journal.owner, journal.note, containment) as launcher:
        return await perform_run(request, journal, stops, launcher)


async def perform_run(request: RunRequest, journal: Journal, stops: StopRequests, launcher: Launcher) -> Terminal:
    """Perform a run and return the body of its terminal event, which is then already stored and relayed.

    Raises:
        SessionBusy: The session has an unfinished run.
    """
    journal.begin()
    if request.refusal is None and request.profile is not None and request.profile.workspace != "none":
        from ao_runner.runs.workspace import perform_in_workspace  # only these runs need it

        return await perform_in_workspace(request, journal, partial(_perform, request, stops, launcher))
    return await _perform(request, stops, launcher, journal, WorkFolder(request.session.project_dir))


async def _perform(
    request: RunRequest, stops: StopRequests, launcher: Launcher, journal: Journal, folder: WorkFolder
) -> Terminal:
    """Perform a run in a folder, or end it with a refusal."""
    identity = RunIdentity(
        request.run.run_id, request.run.session_id, ExecutorIdentity(name=request.executor.name, version=NOT_DESCRIBED)
    )
    redactor = NO_SECRETS
    try:
        if folder.refusal is not None:
            raise folder.refusal
        if request.refusal is not None:
            raise CannotStart(request.refusal)
        is_turn = launcher.keeps(request.session.session_id)
        checked = await _beside_the_loop(request, lambda: check_run(request, folder.path, is_turn=is_turn))
        description = await _describe(request, folder.path, stops, launcher)
        journal.mark("described")
        environment, redactor = _environment(request, description, journal)
        folder.learn_secrets(redactor)
        ready = await _beside_the_loop(
            request, partial(ready_run, checked, description, environment, redactor, is_turn=is_turn)
        )
        del checked  # a run may last for hours, and its parsed invocation takes 4 KB
        identity = identity._replace(executor=description.executor)
        context, contract = AttemptContext(ready, identity, journal, stops, launcher), ready.contract
        if contract is None or (keeps_itself(description, contract) and not request.verify_results):
            record = await context.perform(ready.invocation)
        else:
            from ao_runner.runs.contract_loop import attempt_verified, retry_until_valid  # only these runs need it

            perform = attempt_verified if keeps_itself(description, contract) else retry_until_valid
            record = await perform(context, contract)
    except CannotStart as error:
        # No process was started, so the events name no executor version.
        nameless = identity._replace(executor=ExecutorIdentity(name=request.executor.name, version=NOT_DESCRIBED))
        journal.relay(list(new_conversation(request, nameless, redactor=redactor).conclude(error.failure)))
        record = RunRecord(argv=argv_of(request))
    return journal.end(record)


async def _beside_the_loop(request: RunRequest, step: Callable[[], Returned]) -> Returned:
    """Run a step, in a thread if the request is large, so that a slow step does not delay other runs."""

    async def at_once() -> Returned:
        return step()

    run = request.run
    documents: list[JsonValue] = [request.session.blueprint, run.contract, run.parameters, *run.attachments]
    is_small = all(map(_is_small, documents))
    return await with_judge(at_once if is_small else lambda: asyncio.to_thread(step))


def _is_small(document: JsonValue) -> bool:
    """Return whether a JSON value has few values and little text, and read no more of it than needed."""
    unread, values, characters = [document], 0, 0
    while unread and values <= MOST_VALUES and characters <= MOST_CHARACTERS:
        value = unread.pop()
        values += 1
        match value:
            case str():
                characters += len(value)
            case list():
                unread += value[: MOST_VALUES + 1]
            case dict():
                characters += sum(map(len, islice(value, MOST_VALUES)))
                unread += islice(value.values(), MOST_VALUES + 1)
            case _:
                pass
    return not unread and values <= MOST_VALUES and characters <= MOST_CHARACTERS


async def _describe(request: RunRequest, project_dir: str, stops: StopRequests, launcher: Launcher) -> Description:
    environment = bare_environment(request.environ)
    try:
        asking = asyncio.ensure_future(launcher.describe(sandboxed(request, project_dir, environment), environment))
        with stops.told_to(asking.cancel):
            description = await asking
    except asyncio.CancelledError:
        if not stops.count:
            raise
        raise stops.refusal() from None
    except SandboxNotThere as error:
        raise refused(ErrorType.DEPENDENCY_MISSING, str(error), origin="environment") from error
    except DescribeFailed as error:
        if request.profile is not None and request.sandbox is not None:
            sentence = f"in the sandbox of the profile {request.profile.name!r}, {error}"
            raise refused(ErrorType.DEPENDENCY_MISSING, sentence, origin="environment") from error
        raise refused(ErrorType.PROTOCOL_VIOLATION, str(error), origin="executor") from error
    except OSError as error:
        from ao_runner.runs.outcome import not_started

        raise CannotStart(not_started(str(request.executor.path), error)) from error
    return description


def _environment(request: RunRequest, description: Description, journal: Journal) -> tuple[dict[str, str], Redactor]:
    """Return the environment of the executor and its redactor; report oddities as notes."""
    if request.simulation is not None and not description.model_endpoint:
        journal.note(f"executor {request.executor.name} does not ask a model: the script is not used")
    try:
        environment = environment_of(request, description)
    except OwnCredentialGiven as error:
        raise refused(ErrorType.INVALID_INVOCATION, str(error)) from error
    redactor = redactor_of(request, description, environment)
    for name in redactor.too_short:
        journal.note(f"secret {name} has fewer than {SHORTEST_SECRET} characters: it is not removed from events")
    return environment, redactor
