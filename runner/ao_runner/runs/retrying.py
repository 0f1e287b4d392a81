"""How a run is attempted: once by an executor that keeps its contract, or until an answer fits."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ao_protocol.contracts import OutputContract
from ao_protocol.documents import Description
from ao_protocol.errors import ErrorType
from ao_protocol.events import Failure, Result, Terminal
from ao_protocol.redaction import NO_SECRETS, Redactor
from ao_protocol.rejected_answers import RejectedAnswer
from ao_protocol.wire import JsonObject
from ao_runner.processes.launcher import Launcher
from ao_runner.profiles import profile_environment
from ao_runner.runs.attempt import Attempt, CannotStart
from ao_runner.runs.contract_keeping import MAX_BYTES_JUDGED_AT_ONCE, KeptRun, text_of_answer
from ao_runner.runs.contracts import asked_again, without_contract
from ao_runner.runs.conversation import unchanged
from ao_runner.runs.environment import executor_environment, refuse_own_credentials, secrets_of
from ao_runner.runs.journal import Journal, timestamp
from ao_runner.runs.outcome import CancelledBeforeStart, LimitReached, failure_for
from ao_runner.runs.relayed_event import Relayed, RunIdentity, as_event_of
from ao_runner.runs.run_order import RunOrder, invocation_of
from ao_runner.runs.stop_requests import StopRequests
from ao_runner.runs.verification import verified, verified_apart
from ao_runner.store.records import RunRecord


@dataclass(frozen=True, slots=True)
class Scene:
    """What every attempt of a run has in common."""

    order: RunOrder
    description: Description
    identity: RunIdentity
    journal: Journal
    stops: StopRequests
    launcher: Launcher

    async def attempt(
        self,
        invocation: JsonObject,
        order: RunOrder,
        identity: RunIdentity,
        relay: Callable[[list[Relayed]], None],
        settle: Callable[[Terminal], Terminal],
    ) -> RunRecord:
        """Perform one attempt.

        Raises:
            CannotStart: there was no process.
        """
        environment = environment_of(order, self.description)
        redactor = redactor_of(order, self.description, environment)
        limit = self.order.timeout_seconds
        attempt = Attempt(order, self.description, environment, redactor, identity, relay, settle, limit)
        return await attempt.perform(invocation, self.journal, self.stops, self.launcher)


def environment_of(order: RunOrder, description: Description) -> dict[str, str]:
    """Return the whole environment of an executor: what everyone gets, what it names, what its profile adds.

    Raises:
        OwnCredentialGiven: a credential of the runner would be in it.
    """
    environment = executor_environment(order.environ, description, order.simulation)
    if order.profile is not None and order.simulation is not None:
        environment |= order.profile.environment.set
    elif order.profile is not None:
        environment |= profile_environment(order.profile, order.environ)
    refuse_own_credentials(environment, order.environ)
    return environment


def redactor_of(order: RunOrder, description: Description, environment: Mapping[str, str]) -> Redactor:
    """Return what takes out the secrets that the executor and its profile name, and those of the run."""
    if order.simulation is not None:
        return NO_SECRETS  # the key is a made-up one
    secrets = [*description.secrets, *(order.profile.secrets if order.profile else ())]
    return Redactor({**secrets_of(environment, secrets), **order.secret_values})


async def attempt_once(scene: Scene, contract: OutputContract | None) -> RunRecord:
    """Let an executor perform a run by itself, and verify its result where that is wished."""
    order = scene.order
    if contract is None or not order.verify_results:
        return await scene.attempt(invocation_of(order), order, scene.identity, scene.journal.relay, unchanged)
    verify = partial(verified, contract=contract, executor_name=order.executor.name)
    claimed: list[Result] = []
    """A result that may take long to verify, as its executor said it."""
    held: list[Relayed] = []
    refused: list[Result] = []

    def settle(terminal: Terminal) -> Terminal:
        if not isinstance(terminal, Result):
            return terminal
        if len(terminal.model_dump_json()) > MAX_BYTES_JUDGED_AT_ONCE:
            claimed.append(terminal)
            return terminal
        if isinstance(settled := verify(terminal), Failure):
            refused.append(terminal)
        return settled

    def relay(batch: list[Relayed]) -> None:
        if claimed and batch and batch[-1].event_type == "result":
            held.append(batch.pop())
        scene.journal.relay(batch)

    record = await scene.attempt(invocation_of(order), order, scene.identity, relay, settle)
    redactor = redactor_of(order, scene.description, environment_of(order, scene.description))
    for item in held:
        settled = await verified_apart(claimed[0], verify)
        if isinstance(settled, Failure):
            refused.append(claimed[0])
            failure = _redacted(settled, redactor)
            item = as_event_of(scene.identity, item.seq, failure, None, timestamp)  # noqa: PLW2901
        scene.journal.relay([item])
    return _with_rejected(record, [_answer_of(result).redacted(redactor) for result in refused], order)


def _with_rejected(record: RunRecord, answers: Sequence[RejectedAnswer], order: RunOrder) -> RunRecord:
    """Return the record with rejected answers, where they may be kept."""
    if not order.keeps_rejected_answers:
        return record
    return replace(record, rejected_answers=(*record.rejected_answers, *answers))


def _answer_of(result: Result) -> RejectedAnswer:
    retries = 0 if result.output is None else result.output.retry_count
    return RejectedAnswer.of(retries + 1, text_of_answer(result))


def _redacted(failure: Failure, redactor: Redactor) -> Failure:
    error = failure.error
    problems = [redactor.text(problem) for problem in error.validation_errors or ()] or None
    update = {"message": redactor.text(error.message), "validation_errors": problems}
    return failure.model_copy(update={"error": error.model_copy(update=update)})


async def attempt_until_kept(scene: Scene, contract: OutputContract) -> RunRecord:
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
    records: list[RunRecord] = []
    while kept.terminal is None:
        run_id = kept.begin_attempt()
        try:
            now = _within_what_is_left(order, time.monotonic() - began_at, kept.spent_usd)
            record = await scene.attempt(
                {**invocation, "run_id": run_id, "limits": invocation_of(now)["limits"]},
                now,
                replace(scene.identity, run_id=run_id),
                relay,
                unchanged,
            )
        except CannotStart as error:
            if not records:
                raise
            ending = error.ending
            if isinstance(ending, CancelledBeforeStart):
                ending = replace(ending, had_attempts=True)
            journal.relay(list(kept.fail(failure_for(ending))))
            break
        journal.relay(await kept.judge_apart())
        records.append(record)
        if kept.next_prompt is not None:
            invocation = asked_again(invocation, kept.executor_session_id, kept.next_prompt)
    return _with_rejected(_together(records), kept.rejected, order)


def _within_what_is_left(order: RunOrder, elapsed_seconds: float, spent_usd: float) -> RunOrder:
    """Return the order with the limits of one more attempt: those of the run hold for all together (AOX-251)."""
    seconds, dollars = order.timeout_seconds, order.max_cost_usd
    if seconds is not None:
        if elapsed_seconds >= seconds:
            sentence = f"the run took longer than the {seconds:g} s that it was given, and no answer fitted by then"
            raise CannotStart(LimitReached(ErrorType.DEADLINE_EXCEEDED, sentence))
        seconds -= elapsed_seconds
    if dollars is not None:
        if spent_usd >= dollars:
            sentence = f"the run has cost {spent_usd:.4g} USD of max_cost_usd {dollars:g}, and no answer fitted by then"
            raise CannotStart(LimitReached(ErrorType.LIMIT_EXCEEDED, sentence))
        dollars -= spent_usd
    return replace(order, timeout_seconds=seconds, max_cost_usd=dollars)


def _together(records: Sequence[RunRecord]) -> RunRecord:
    return replace(
        records[-1],
        problem_count=sum(record.problem_count for record in records),
        problems=tuple(problem for record in records for problem in record.problems),
        stop_actions=tuple(action for record in records for action in record.stop_actions),
    )
