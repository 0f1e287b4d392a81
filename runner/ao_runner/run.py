"""The story of one run: describe, contract, environment, attempts, terminal event, record.

It names every step in its order and contains none. Whatever happens, the run ends with exactly one terminal event.
An executor that keeps output contracts has one attempt; for another one the runner keeps the contract, and asks its
session again by a further attempt.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

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
from ao_protocol.version import CURRENT, SchemaVersion
from ao_protocol.wire import JsonObject
from ao_runner.attempt import Attempt, CannotStart, StopRequests, argv_of, new_conversation
from ao_runner.contracts import asked_again, demands_of_run, keeps_itself, strategies_for, without_contract
from ao_runner.conversation import Relayed, RunIdentity
from ao_runner.environment import bare_environment, executor_environment, secret_values
from ao_runner.inquiry import DescribeFailed, describe_executor
from ao_runner.journal import Journal, timestamp
from ao_runner.keeping import KeptRun
from ao_runner.order import RunOrder, invocation_of
from ao_runner.outcome import (
    CancelledBeforeStart,
    NoCommonVersion,
    NotAcceptable,
    NotDescribed,
    NotStarted,
    OutOfTime,
    failure_for,
)
from ao_runner.records import RunRecord
from ao_runner.verification import verified


def perform_run(order: RunOrder, journal: Journal, stops: StopRequests) -> Terminal:
    """Perform a run and return its terminal event's body; by then it is stored and told.

    Raises:
        SessionBusy: the session has a run that is not over.
    """
    journal.begin()
    identity = RunIdentity(
        order.run.run_id, order.run.session_id, ExecutorIdentity(name=order.executor.name, version="unknown")
    )
    try:
        description = _describe(order, stops)
        identity = replace(identity, executor=description.executor)
        journal.mark("described")
        _remark(order, description, journal)
        contract = _contract(order)
        scene = _Scene(order, description, identity, journal, stops)
        if contract is None or keeps_itself(description, contract):
            record = _attempt_once(scene, contract)
        else:
            record = _attempt_until_kept(scene, _as_asked_here(order, contract))
    except CannotStart as error:
        journal.relay(list(new_conversation(order, identity, []).conclude(failure_for(error.ending))))
        record = RunRecord(argv=argv_of(order))
    return journal.end(record)


@dataclass(frozen=True, slots=True)
class _Scene:
    """What every attempt of a run has in common."""

    order: RunOrder
    description: Description
    identity: RunIdentity
    journal: Journal
    stops: StopRequests

    def attempt(
        self,
        invocation: JsonObject,
        order: RunOrder,
        identity: RunIdentity,
        relay: Callable[[list[Relayed]], None],
        settle: Callable[[Terminal], Terminal],
    ) -> RunRecord:
        environment = executor_environment(order.environ, self.description, order.simulation)
        hidden = secret_values(environment, self.description.secrets)
        limit = self.order.timeout_seconds
        attempt = Attempt(order, self.description, environment, hidden, identity, relay, settle, limit)
        return attempt.perform(invocation, self.journal, self.stops)


def _describe(order: RunOrder, stops: StopRequests) -> Description:
    try:
        description = describe_executor(order.executor, bare_environment(order.environ), stops.fileno())
    except DescribeFailed as error:
        raise CannotStart(CancelledBeforeStart() if stops.take() else NotDescribed(str(error))) from error
    except OSError as error:
        raise CannotStart(NotStarted(str(order.executor.path), error)) from error
    if all(SchemaVersion.parse(text).major != CURRENT.major for text in description.schema_versions):
        raise CannotStart(NoCommonVersion(str(CURRENT), description.schema_versions))
    return description


def _remark(order: RunOrder, description: Description, journal: Journal) -> None:
    if order.simulation is not None and not description.model_endpoint:
        journal.note(f"executor {order.executor.name} asks no model: the script is not used")


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


def _attempt_once(scene: _Scene, contract: OutputContract | None) -> RunRecord:
    order = scene.order
    settle: Callable[[Terminal], Terminal] = _unchanged
    if contract is not None and order.verify_results:
        settle = partial(verified, contract=contract, executor_name=order.executor.name)
    return scene.attempt(invocation_of(order), order, scene.identity, scene.journal.relay, settle)


def _unchanged(terminal: Terminal) -> Terminal:
    return terminal


def _attempt_until_kept(scene: _Scene, contract: OutputContract) -> RunRecord:
    """Let one attempt follow another, as one run, until an answer fits or the contract is given up."""
    order, journal = scene.order, scene.journal
    kept = KeptRun(
        contract,
        scene.identity,
        timestamp,
        can_resume=scene.description.capabilities.resume,
        executor_session_id=order.session.executor_session_id,
    )

    def relay(batch: list[Relayed]) -> None:
        journal.relay([told for item in batch for told in kept.receive(item)])

    began_at = time.monotonic()
    invocation = without_contract(invocation_of(order), contract)
    record: RunRecord | None = None
    while kept.terminal is None:
        run_id = kept.begin_attempt()
        try:
            now = replace(order, timeout_seconds=_seconds_left(order, time.monotonic() - began_at))
            latest = scene.attempt(
                {**invocation, "run_id": run_id, "limits": invocation_of(now)["limits"]},
                now,
                replace(scene.identity, run_id=run_id),
                relay,
                _unchanged,
            )
        except CannotStart as error:
            if record is None:
                raise
            ending = error.ending
            if isinstance(ending, CancelledBeforeStart):
                ending = replace(ending, had_attempts=True)
            journal.relay(list(kept.fail(failure_for(ending))))
            break
        record = latest if record is None else _together(record, latest)
        if kept.next_prompt is not None:
            invocation = asked_again(invocation, kept.executor_session_id, kept.next_prompt)
    return record or RunRecord(argv=argv_of(order))


def _seconds_left(order: RunOrder, elapsed_seconds: float) -> float | None:
    limit = order.timeout_seconds
    if limit is None:
        return None
    if elapsed_seconds >= limit:
        raise CannotStart(OutOfTime(limit))
    return limit - elapsed_seconds


def _together(before: RunRecord, latest: RunRecord) -> RunRecord:
    return replace(
        latest,
        problem_count=before.problem_count + latest.problem_count,
        problems=(*before.problems, *latest.problems),
        stop_actions=(*before.stop_actions, *latest.stop_actions),
    )
