"""The story of one run: check, describe, check against the description, environment, attempts, terminal event, record.

It names every step in its order and contains none. Whatever happens, the run ends with exactly one terminal event.
An executor that keeps output contracts has one attempt; for another one the runner keeps the contract, and asks its
session again by a further attempt.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from pydantic import JsonValue

from ao_protocol.documents import Description
from ao_protocol.errors import ErrorType
from ao_protocol.events import ExecutorIdentity, Terminal
from ao_protocol.redaction import NO_SECRETS, SHORTEST_SECRET, Redactor
from ao_runner.discovery.describe import DescribeFailed
from ao_runner.processes.cleanup_journal import own_cleanup_journal, sweep_left_behind
from ao_runner.processes.containment import Containment, lifelines
from ao_runner.run_events import NOT_DESCRIBED, RunIdentity
from ao_runner.runs.acceptance import (
    check_run,
    contract_as_asked,
    version_for,
    with_placeholders_filled_in,
)
from ao_runner.runs.attempt import AttemptContext, CannotStart, argv_of, new_conversation
from ao_runner.runs.contract_loop import attempt_once, retry_until_valid
from ao_runner.runs.contracts import keeps_itself
from ao_runner.runs.environment import OwnCredentialGiven, bare_environment
from ao_runner.runs.journal import Journal, StoredJournal
from ao_runner.runs.launch import ColdLauncher, Launcher
from ao_runner.runs.outcome import CancelledBeforeStart, NotAcceptable, NotDescribed, NotStarted, failure_for
from ao_runner.runs.run_request import RunRequest, environment_of, redactor_of
from ao_runner.runs.stopping import StopRequests
from ao_runner.store.records import RunRecord

MOST_VALUES: Final = 2000
MOST_CHARACTERS: Final = 100_000
"""A blueprint or schema of so many values and characters is read within a few milliseconds."""

Returned = TypeVar("Returned")


async def perform_run(request: RunRequest, journal: Journal, stops: StopRequests, launcher: Launcher) -> Terminal:
    """Perform a run and return its terminal event's body; by then it is stored and told.

    Raises:
        SessionBusy: the session has a run that is not over.
    """
    journal.begin()
    identity = RunIdentity(
        request.run.run_id, request.run.session_id, ExecutorIdentity(name=request.executor.name, version=NOT_DESCRIBED)
    )
    redactor = NO_SECRETS
    try:
        if request.refusal is not None:
            raise CannotStart(request.refusal)
        request = await _beside_the_loop(with_placeholders_filled_in, request)
        is_turn = launcher.keeps(request.session.session_id)
        acceptable = await _beside_the_loop(partial(check_run, is_turn=is_turn), request)
        description = await _describe(request, stops, launcher)
        request = replace(request, schema_version=version_for(description))
        journal.mark("described")
        environment, redactor = _environment(request, description, journal)
        against = partial(contract_as_asked, run=acceptable, description=description, is_turn=is_turn)
        contract = await _beside_the_loop(against, request)
        context = AttemptContext(
            request=request,
            description=description,
            environment=environment,
            redactor=redactor,
            identity=replace(identity, executor=description.executor),
            journal=journal,
            stops=stops,
            launcher=launcher,
            limit_seconds=request.timeout_seconds,
            relay=journal.relay,
        )
        if contract is None or keeps_itself(description, contract):
            record = await attempt_once(context, contract)
        else:
            record = await retry_until_valid(context, contract)
    except CannotStart as error:
        # Nothing was started, so the events name no version of the executor: nobody is told that it has.
        journal.relay(list(new_conversation(request, identity, redactor).conclude(failure_for(error.ending))))
        record = RunRecord(argv=argv_of(request))
    return journal.end(record)


async def _beside_the_loop(step: Callable[[RunRequest], Returned], request: RunRequest) -> Returned:
    """Take a step of which a large blueprint or schema makes a long one; that one holds up no other run."""
    if all(map(_is_small, (request.session.blueprint, request.run.contract, request.run.parameters))):
        return step(request)
    return await asyncio.to_thread(step, request)


def _is_small(document: JsonValue) -> bool:
    """Tell whether some JSON has few values and little text. It looks at no more of it than that."""
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


async def _describe(request: RunRequest, stops: StopRequests, launcher: Launcher) -> Description:
    asking = asyncio.ensure_future(launcher.describe(request.executor, bare_environment(request.environ)))
    try:
        with stops.told_to(asking.cancel):
            description = await asking
    except asyncio.CancelledError:
        if not stops.count:
            raise
        raise CannotStart(CancelledBeforeStart()) from None
    except DescribeFailed as error:
        raise CannotStart(NotDescribed(str(error))) from error
    except OSError as error:
        raise CannotStart(NotStarted(str(request.executor.path), error)) from error
    return description


def _environment(request: RunRequest, description: Description, journal: Journal) -> tuple[dict[str, str], Redactor]:
    """Return the environment of a run's executor, and what takes its secrets out of events; note what is odd in it."""
    if request.simulation is not None and not description.model_endpoint:
        journal.note(f"executor {request.executor.name} does not ask a model: the script is not used")
    try:
        environment = environment_of(request, description)
    except OwnCredentialGiven as error:
        raise CannotStart(NotAcceptable(ErrorType.INVALID_INVOCATION, str(error))) from error
    redactor = redactor_of(request, description, environment)
    for name in redactor.too_short:
        journal.note(f"secret {name} has fewer than {SHORTEST_SECRET} characters: it is not removed from events")
    return environment, redactor


async def perform_single_run(
    request: RunRequest, journal: StoredJournal, stops: StopRequests, home: Path, containment: Containment
) -> Terminal:
    """Perform a run and return its terminal event, which is stored.

    Raises:
        SessionBusy: the session has a run that is not over.
    """
    if swept := sweep_left_behind(home, journal.note):
        journal.note(f"cleaned up after a killed runner: {swept}")
    with own_cleanup_journal(home, journal.owner, journal.note) as cleanup, lifelines(containment) as lines:
        return await perform_run(request, journal, stops, ColdLauncher(lines, cleanup))
