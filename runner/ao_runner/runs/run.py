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

from ao_protocol.describe import Description
from ao_protocol.errors import ErrorType
from ao_protocol.events import ExecutorIdentity, Terminal
from ao_protocol.redaction import NO_SECRETS, SHORTEST_SECRET, Redactor
from ao_runner.discovery.describe import DescribeFailed
from ao_runner.processes.cleanup_journal import own_belongings
from ao_runner.processes.containment import Containment, lifelines
from ao_runner.processes.scratch import sweep_left_behind
from ao_runner.run_events import NOT_DESCRIBED, RunIdentity
from ao_runner.runs.acceptance import (
    check_run,
    contract_as_asked,
    version_for,
    with_placeholders_filled_in,
)
from ao_runner.runs.attempt import CannotStart, argv_of, new_conversation
from ao_runner.runs.contract_loop import Scene, attempt_once, attempt_until_kept
from ao_runner.runs.contracts import keeps_itself
from ao_runner.runs.environment import OwnCredentialGiven, bare_environment
from ao_runner.runs.journal import Journal, StoredJournal
from ao_runner.runs.launch import ColdLauncher, Launcher
from ao_runner.runs.outcome import CancelledBeforeStart, NotAcceptable, NotDescribed, NotStarted, failure_for
from ao_runner.runs.run_request import RunOrder, environment_of, redactor_of
from ao_runner.runs.stop_requests import StopRequests
from ao_runner.store.records import RunRecord

MOST_VALUES: Final = 2000
MOST_CHARACTERS: Final = 100_000
"""A blueprint or schema of so many values and characters is read within a few milliseconds."""

Returned = TypeVar("Returned")


async def perform_run(order: RunOrder, journal: Journal, stops: StopRequests, launcher: Launcher) -> Terminal:
    """Perform a run and return its terminal event's body; by then it is stored and told.

    Raises:
        SessionBusy: the session has a run that is not over.
    """
    journal.begin()
    identity = RunIdentity(
        order.run.run_id, order.run.session_id, ExecutorIdentity(name=order.executor.name, version=NOT_DESCRIBED)
    )
    redactor = NO_SECRETS
    try:
        if order.refusal is not None:
            raise CannotStart(order.refusal)
        order = await _beside_the_loop(with_placeholders_filled_in, order)
        is_turn = launcher.keeps(order.session.session_id)
        acceptable = await _beside_the_loop(partial(check_run, is_turn=is_turn), order)
        description = await _describe(order, stops, launcher)
        order = replace(order, schema_version=version_for(description))
        identity = replace(identity, executor=description.executor)
        journal.mark("described")
        redactor = _remark(order, description, journal)
        against = partial(contract_as_asked, run=acceptable, description=description, is_turn=is_turn)
        contract = await _beside_the_loop(against, order)
        scene = Scene(order, description, identity, journal, stops, launcher)
        if contract is None or keeps_itself(description, contract):
            record = await attempt_once(scene, contract)
        else:
            record = await attempt_until_kept(scene, contract)
    except CannotStart as error:
        journal.relay(list(new_conversation(order, identity, redactor).conclude(failure_for(error.ending))))
        record = RunRecord(argv=argv_of(order))
    return journal.end(record)


async def _beside_the_loop(step: Callable[[RunOrder], Returned], order: RunOrder) -> Returned:
    """Take a step of which a large blueprint or schema makes a long one; that one holds up no other run."""
    if all(map(_is_small, (order.session.blueprint, order.run.contract, order.run.parameters))):
        return step(order)
    return await asyncio.to_thread(step, order)


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


async def _describe(order: RunOrder, stops: StopRequests, launcher: Launcher) -> Description:
    asking = asyncio.ensure_future(launcher.describe(order.executor, bare_environment(order.environ)))
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
        raise CannotStart(NotStarted(str(order.executor.path), error)) from error
    return description


def _remark(order: RunOrder, description: Description, journal: Journal) -> Redactor:
    """Note what people should know of the run's environment, and return what takes the secrets out of its events."""
    if order.simulation is not None and not description.model_endpoint:
        journal.note(f"executor {order.executor.name} does not ask a model: the script is not used")
    try:
        environment = environment_of(order, description)
    except OwnCredentialGiven as error:
        raise CannotStart(NotAcceptable(ErrorType.INVALID_INVOCATION, str(error))) from error
    redactor = redactor_of(order, description, environment)
    for name in redactor.too_short:
        journal.note(f"secret {name} has fewer than {SHORTEST_SECRET} characters: it is not removed from events")
    return redactor


async def perform_single_run(
    order: RunOrder, journal: StoredJournal, stops: StopRequests, home: Path, containment: Containment
) -> Terminal:
    """Perform a run and return its terminal event, which is stored.

    Raises:
        SessionBusy: the session has a run that is not over.
    """
    if swept := sweep_left_behind(home, journal.note):
        journal.note(f"cleaned up after a killed runner: {swept}")
    with own_belongings(home, journal.owner, journal.note) as belongings, lifelines(containment) as lines:
        return await perform_run(order, journal, stops, ColdLauncher(lines, belongings))
