"""The story of one run: describe, contract, environment, attempts, terminal event, record.

It names every step in its order and contains none. Whatever happens, the run ends with exactly one terminal event.
An executor that keeps output contracts has one attempt; for another one the runner keeps the contract, and asks its
session again by a further attempt.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final, TypeVar

from pydantic import JsonValue, ValidationError

from ao_protocol.blueprint import Blueprint
from ao_protocol.describe import Description
from ao_protocol.errors import ErrorType
from ao_protocol.events import ExecutorIdentity, Terminal
from ao_protocol.output import (
    ContractOverridden,
    InvalidOptions,
    InvalidSchema,
    OutputContract,
    StrategyNotOffered,
    resolve_contract,
    with_strategy,
)
from ao_protocol.redaction import SHORTEST_SECRET
from ao_protocol.version import CURRENT, SchemaVersion
from ao_protocol.wire import JsonObject, problems_of
from ao_runner.blueprints.placeholders import (
    Scopes,
    UnresolvedPlaceholders,
    fill_runner_values,
    resolve_placeholders,
)
from ao_runner.discovery.describe import DescribeFailed
from ao_runner.processes.launcher import Launcher
from ao_runner.profiles import profile_environment
from ao_runner.runs.attempt import CannotStart, argv_of, new_conversation
from ao_runner.runs.contracts import demands_of_run, keeps_itself, strategies_for
from ao_runner.runs.environment import OwnCredentialGiven, bare_environment
from ao_runner.runs.journal import Journal
from ao_runner.runs.outcome import (
    CancelledBeforeStart,
    NoCommonVersion,
    NotAcceptable,
    NotDescribed,
    NotStarted,
    failure_for,
)
from ao_runner.runs.relayed_event import RunIdentity
from ao_runner.runs.retrying import Scene, attempt_once, attempt_until_kept, environment_of, redactor_of
from ao_runner.runs.run_order import RunOrder
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
        order.run.run_id, order.run.session_id, ExecutorIdentity(name=order.executor.name, version="unknown")
    )
    try:
        if order.refusal is not None:
            raise CannotStart(order.refusal)
        order = await _beside_the_loop(_with_placeholders_filled_in, order)
        description = await _describe(order, stops, launcher)
        identity = replace(identity, executor=description.executor)
        journal.mark("described")
        _remark(order, description, journal)
        contract = await _beside_the_loop(_contract, order)
        scene = Scene(order, description, identity, journal, stops, launcher)
        if contract is None or keeps_itself(description, contract):
            record = await attempt_once(scene, contract)
        else:
            record = await attempt_until_kept(scene, _as_asked_here(order, contract))
    except CannotStart as error:
        journal.relay(list(new_conversation(order, identity).conclude(failure_for(error.ending))))
        record = RunRecord(argv=argv_of(order))
    return journal.end(record)


async def _beside_the_loop(step: Callable[[RunOrder], Returned], order: RunOrder) -> Returned:
    """Take a step of which a large blueprint or schema makes a long one; that one holds up no other run."""
    if _is_small(order.session.blueprint) and _is_small(order.run.contract):
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


def _with_placeholders_filled_in(order: RunOrder) -> RunOrder:
    try:
        blueprint = _filled_in(order)
        Blueprint.model_validate(blueprint)
    except UnresolvedPlaceholders as error:
        raise CannotStart(NotAcceptable(ErrorType.INVALID_INVOCATION, str(error))) from error
    except ValidationError as error:
        problems = [str(problem) for problem in problems_of(error, order.session.blueprint)]
        sentence = f"the blueprint is not valid: {'; '.join(problems)}"
        raise CannotStart(NotAcceptable(ErrorType.INVALID_INVOCATION, sentence, {"problems": problems})) from error
    return replace(order, session=replace(order.session, blueprint=blueprint))


def _filled_in(order: RunOrder) -> JsonObject:
    if not order.is_resolved:
        return resolve_placeholders(order.session.blueprint, _scopes(order))
    filled = fill_runner_values(order.session.blueprint, order.runner_values)
    return filled if isinstance(filled, dict) else {}


def _scopes(order: RunOrder) -> Scopes:
    session, profile = order.session, order.profile
    if profile is None:
        shown: Mapping[str, str] = {}
    elif order.simulation is not None:
        shown = profile.environment.set
    else:
        shown = profile_environment(profile, order.environ)
    return Scopes(
        runner=order.runner_values,
        params=order.run.parameters if order.first_parameters is None else order.first_parameters,
        env=shown,
        runtime={"session_id": session.session_id, "run_id": order.run.run_id, "project_dir": session.project_dir},
        secrets=frozenset() if profile is None else frozenset(profile.secrets),
    )


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
    if all(SchemaVersion.parse(text).major != CURRENT.major for text in description.schema_versions):
        raise CannotStart(NoCommonVersion(str(CURRENT), description.schema_versions))
    return description


def _remark(order: RunOrder, description: Description, journal: Journal) -> None:
    if order.simulation is not None and not description.model_endpoint:
        journal.note(f"executor {order.executor.name} does not ask a model: the script is not used")
    try:
        environment = environment_of(order, description)
    except OwnCredentialGiven as error:
        raise CannotStart(NotAcceptable(ErrorType.INVALID_INVOCATION, str(error))) from error
    for name in redactor_of(order, description, environment).too_short:
        journal.note(f"secret {name} has fewer than {SHORTEST_SECRET} characters: it is not removed from events")


def _contract(order: RunOrder) -> OutputContract | None:
    blueprint = Blueprint.model_validate(order.session.blueprint)
    try:
        return resolve_contract(demands_of_run(blueprint, order.run), order.option_defaults)
    except InvalidSchema as error:
        sentence = f"the output schema is not acceptable: {error}"
        raise CannotStart(NotAcceptable(ErrorType.INVALID_OUTPUT_SCHEMA, sentence)) from error
    except (InvalidOptions, ContractOverridden) as error:
        problems = [error.problem] if isinstance(error, ContractOverridden) else error.problems
        details = {"problems": [str(problem) for problem in problems]}
        raise CannotStart(NotAcceptable(ErrorType.INVALID_INVOCATION, str(error), details)) from error


def _as_asked_here(order: RunOrder, contract: OutputContract) -> OutputContract:
    try:
        offered = strategies_for(Blueprint.model_validate(order.session.blueprint), order.run)
        return with_strategy(contract, offered, is_resume=order.run.mode == "resume")
    except StrategyNotOffered as error:
        sentence = f"{order.executor.name} keeps no such contract itself, and for the runner {error}"
        details = {"missing": [f"output_schema.strategies:{error.wanted}"]}
        raise CannotStart(NotAcceptable(ErrorType.UNSUPPORTED_CAPABILITY, sentence, details)) from error
