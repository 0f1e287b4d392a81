"""Perform a run under an output contract: once if the executor enforces it, else repeatedly until an answer is valid.

The loop holds back the messages of the model until the attempt ends, because any of them may be the answer, and no
event contains an invalid answer (SPEC 9.5).
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, assert_never

from pydantic import JsonValue

from ao_protocol.contracts import (
    Accepted,
    AskAgain,
    Enforcement,
    GiveUp,
    JsonFormat,
    NativeOutput,
    OutputContract,
    Problem,
    Strategy,
    enrich,
    problems_of_data,
    summary_of,
    validator_for,
)
from ao_protocol.contracts.enforcement import CUT_OFF, Assessment, assess, not_assessed
from ao_protocol.errors import REFUSALS, ErrorType
from ao_protocol.events import (
    Body,
    ErrorInfo,
    Failure,
    Heartbeat,
    Log,
    Message,
    OutputValidation,
    Result,
    RunStarted,
    SessionBound,
    Terminal,
    ToolStarted,
    Usage,
    UsageFigures,
)
from ao_protocol.json_path import below
from ao_protocol.message_content import text_of
from ao_protocol.rejected_answers import RejectedAnswer
from ao_protocol.version import CURRENT
from ao_protocol.wire import JsonObject
from ao_runner.processes.calls import CallNotFinished, call_apart
from ao_runner.processes.judging import JUDGING_SECONDS
from ao_runner.run_events import Relayed, RunIdentity, as_event_of
from ao_runner.runs.attempt import AttemptContext
from ao_runner.runs.outcome import failed
from ao_runner.runs.run_request import CannotStart, RunRequest, refused
from ao_runner.store.records import RunRecord, timestamp

_CUT_OFF: Final = frozenset({"max_tokens", "model_context_window_exceeded"})
"""Stop reasons of a model whose answer is incomplete."""
MAX_BYTES_JUDGED_AT_ONCE: Final = 16 * 1024
"""Maximum size of a `result` line that is judged in this process, in tens of ms; others go to another process."""


def _is_quick(size: int, contract: OutputContract) -> bool:
    if isinstance(contract.format, JsonFormat) and not validator_for(contract.format.schema).is_quick(size):
        return False
    return size <= MAX_BYTES_JUDGED_AT_ONCE


@dataclass
class ContractLoop:
    """One run under a contract that its executor does not enforce.

    Pass each relayed event of an attempt to `receive`. After an attempt, `next_prompt` is the prompt for the executor's
    session, or None if the run is over and `terminal` is its end.
    """

    contract: OutputContract
    identity: RunIdentity
    timestamp: Callable[[], str]
    can_resume: bool
    executor_session_id: str | None = None
    next_prompt: str | None = None
    terminal: Terminal | None = None
    unjudged: tuple[Result, Relayed] | None = None
    """An answer that may take long to judge: await `judge_apart` before the next attempt."""
    rejected: list[RejectedAnswer] = field(default_factory=list)
    """The answers that did not fit the contract."""
    attempts: int = 1
    spent_usd: float = 0.0
    """The cost of the attempts so far, as far as the executor reported it."""
    _last_seq: int = 0
    _progress_seq: int = 0
    _has_used_tools: bool = False
    _messages: list[tuple[Message, Relayed]] = field(default_factory=list)
    _used_before: UsageFigures = field(default_factory=UsageFigures)
    _used_now: UsageFigures = field(default_factory=UsageFigures)

    def __post_init__(self) -> None:
        if not self.can_resume:
            self.contract = replace(self.contract, max_retries=0)
        self._enforcement = Enforcement(self.contract)

    def begin_attempt(self) -> str:
        """Return the run id of the next attempt; the first attempt has the id of the run itself."""
        run_id = self.identity.run_id if self._last_seq == 0 else f"{self.identity.run_id}.{self.attempts}"
        self.next_prompt = None
        return run_id

    def receive(self, item: Relayed) -> Iterator[Relayed]:
        """Process an event of an attempt and yield the resulting events of the run."""
        if item.event_type == "message_delta" and item.document.get("parent_tool_call_id") is None:
            return  # it may be part of an answer that does not fit
        match item.body:
            case RunStarted() if self._last_seq > 0:
                pass
            case SessionBound() as bound:
                yield from self._bind(bound, item)
            case Usage() as usage:
                self._used_now = usage
                yield self._write(Usage(**_sum(self._used_before, usage)), item)
            case Result() as result:
                yield from self._take_answer(result, item)
            case Failure() as failure:
                yield from self._pass_on(failure, item)
            case Message(role="assistant", parent_tool_call_id=None) as message if text_of(message.content):
                self._messages.append((message, item))
            case Heartbeat() as heartbeat:
                # `last_progress_seq` of the executor counts events that are held back here.
                yield self._write(heartbeat.model_copy(update={"last_progress_seq": self._progress_seq}), item)
            case body:
                self._has_used_tools = self._has_used_tools or isinstance(body, ToolStarted)
                yield self._write(body, item)

    def fail(self, failure: Failure) -> Iterator[Relayed]:
        """End the run with a failure of the runner, between two attempts."""
        error = failure.error.model_copy(update={"side_effects": "possible"})
        yield from self._end(failure.model_copy(update={"error": error, "usage": self._figures()}), None)

    def _bind(self, bound: SessionBound, item: Relayed) -> Iterator[Relayed]:
        is_known = self.executor_session_id == bound.executor_session_id and self.attempts > 1
        self.executor_session_id = bound.executor_session_id
        if not is_known:
            yield self._write(bound, item)

    def _take_answer(self, result: Result, item: Relayed) -> Iterator[Relayed]:
        self._used_now = result.usage or self._used_now
        if not _is_quick(len(item.line), self.contract):
            self.unjudged = (result, item)
        else:
            yield from self._decide(assessment_of(result, self.contract), result, item)

    async def judge_apart(self) -> list[Relayed]:
        """Judge the answer in `unjudged` in another process and return the resulting events."""
        if self.unjudged is None:
            return []
        (result, item), self.unjudged = self.unjudged, None
        try:
            assessment = await call_apart(JUDGING_SECONDS, assessment_of, result, self.contract)
        except CallNotFinished as error:
            reason = f"The answer ({len(item.line)} bytes) could not be judged: {error}; give a shorter answer"
            assessment = not_assessed(reason, self.contract, result.result_text or "")
        return list(self._decide(assessment, result, item))

    def _decide(self, assessment: Assessment, result: Result, item: Relayed) -> Iterator[Relayed]:
        outcome = self._enforcement.decide(assessment)
        if isinstance(outcome, AskAgain) and self.executor_session_id is None:
            # The executor declares resume, but announced no session.
            outcome = GiveUp(outcome.problems, outcome.attempt, self.contract.error_type)
        if not isinstance(outcome, Accepted):
            self.rejected.append(RejectedAnswer.of(outcome.attempt, text_of_answer(result)))
        match outcome:
            case Accepted():
                yield from self._accept(outcome, result, item)
            case AskAgain(prompt=prompt, problems=problems, retries_left=left, attempt=attempt):
                yield from self._tell_all_but(result)
                yield self._write(_verdict(attempt, [str(problem) for problem in problems], left))
                self.spent_usd += self._used_now.cost_usd or 0.0
                self._used_before, self._used_now = self._figures() or self._used_before, UsageFigures()
                self.next_prompt = prompt
                self.attempts += 1
            case GiveUp(problems=problems, attempt=attempt):
                yield from self._tell_all_but(result)
                errors = [str(problem) for problem in problems]
                if outcome.error_type is not ErrorType.OUTPUT_TRUNCATED:
                    yield self._write(_verdict(attempt, errors, 0))
                yield from self._end(self._not_kept(outcome, errors), None)
            case unknown:
                assert_never(unknown)

    def _accept(self, outcome: Accepted, result: Result, item: Relayed) -> Iterator[Relayed]:
        left = self.contract.max_retries - outcome.retry_count
        yield self._write(OutputValidation(attempt=outcome.retry_count + 1, valid=True, errors=[], retries_left=left))
        for message, relayed in self._messages:
            yield self._write(message, relayed)
        kept = result.model_copy(
            update={
                "result_text": None,
                "result_data": outcome.value,
                "output": summary_of(self.contract, outcome),
                "usage": self._figures(),
            }
        )
        yield from self._end(kept, item)

    def _tell_all_but(self, result: Result) -> Iterator[Relayed]:
        """Write the messages that preceded an answer that does not fit, without any part of the answer."""
        answer = _plain(result.result_text or "")
        for message, relayed in self._messages:
            said = _plain(text_of(message.content))
            if result.result_text is not None and said and said not in answer and answer not in said:
                yield self._write(message, relayed)
        self._messages.clear()

    def _pass_on(self, failure: Failure, item: Relayed) -> Iterator[Relayed]:
        """End the run with the failure of an attempt; the attempt may be only the last part of the run."""
        self._messages.clear()
        self._used_now = failure.usage or self._used_now
        error = failure.error
        if self.attempts > 1 and error.type in REFUSALS:
            # The exit code of a refusal would claim that the run ended before any work.
            message = f"the executor announces resume, but refused it: {error.type}: {error.message}"
            update = {"type": str(ErrorType.PROTOCOL_VIOLATION), "message": message, "origin": "executor"}
            error = error.model_copy(update=update)
        if self.attempts > 1 or self._has_used_tools:
            error = error.model_copy(update={"side_effects": "possible"})
        yield from self._end(failure.model_copy(update={"error": error, "usage": self._figures()}), item)

    def _not_kept(self, outcome: GiveUp, errors: list[str]) -> Failure:
        is_truncated = outcome.error_type is ErrorType.OUTPUT_TRUNCATED
        error = ErrorInfo(
            type=outcome.error_type,
            message=outcome.message,
            retryable=False,
            side_effects="possible",
            origin="model",
            validation_errors=None if is_truncated else errors,
        )
        return Failure(status="failed", error=error, usage=self._figures())

    def _figures(self) -> UsageFigures | None:
        used = UsageFigures(**_sum(self._used_before, self._used_now))
        return None if used == UsageFigures() else used

    def _end(self, terminal: Terminal, item: Relayed | None) -> Iterator[Relayed]:
        if self._last_seq == 0:
            yield self._write(RunStarted(schema_version=str(CURRENT), executor=self.identity.executor))
        self.terminal = terminal
        yield self._write(terminal, item)

    def _write(self, body: Body, received: Relayed | None = None) -> Relayed:
        self._last_seq += 1
        if not isinstance(body, Heartbeat | Log):
            self._progress_seq = self._last_seq
        if received is not None and received.body is body and self._is_ours(received):
            return received
        return as_event_of(self.identity, self._last_seq, body, received, self.timestamp)

    def _is_ours(self, received: Relayed) -> bool:
        return received.seq == self._last_seq and received.document["run_id"] == self.identity.run_id


def assessment_of(result: Result, contract: OutputContract) -> Assessment:
    """Judge the answer in a result."""
    if result.truncated or result.stop_reason in _CUT_OFF:
        return CUT_OFF
    native = None if result.result_text is not None else NativeOutput(result.result_data)
    return assess(result.result_text or "", native, contract)


def text_of_answer(result: Result) -> str:
    """Return the answer in a result as text."""
    if result.result_text is not None:
        return result.result_text
    return json.dumps(result.result_data, ensure_ascii=False)


def _verdict(attempt: int, errors: list[str], retries_left: int) -> OutputValidation:
    return OutputValidation(attempt=attempt, valid=False, errors=errors, retries_left=retries_left)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _sum(before: UsageFigures, since: UsageFigures) -> dict[str, Any]:
    """Add the figures of two processes, each of which counts from its own start.

    If only one of them tells its cost, the sum has none: it would be too small.
    """
    told = [figures.model_dump(exclude={"event_type"}, exclude_none=True) for figures in (before, since)]
    told = [figures for figures in told if any(figures.values())]
    names = {name for figures in told for name in figures}
    if not all("cost_usd" in figures for figures in told):
        names.discard("cost_usd")
    return {name: sum(figures.get(name, 0) for figures in told) for name in names}


async def attempt_verified(context: AttemptContext, contract: OutputContract) -> RunRecord:
    """Perform a run and verify its result against the contract that the executor claims to enforce."""
    request = context.ready.request
    verify = partial(verified, contract=contract, executor_name=request.executor.name)
    claimed: list[Result] = []
    """A result that may take long to verify, as the executor sent it."""
    held: list[Relayed] = []
    refused_results: list[Result] = []

    def settle(terminal: Terminal) -> Terminal:
        if not isinstance(terminal, Result):
            return terminal
        if not _is_quick(len(terminal.model_dump_json()), contract):
            claimed.append(terminal)
            return terminal
        if isinstance(settled := verify(terminal), Failure):
            refused_results.append(terminal)
        return settled

    def relay(batch: Sequence[Relayed]) -> None:
        is_claim = bool(claimed and batch) and batch[-1].event_type == "result"
        held.extend(batch[-1:] if is_claim else ())
        context.journal.relay(batch[:-1] if is_claim else batch)

    record = await context.perform(context.ready.invocation, relay, settle)
    redactor = context.ready.redactor
    for item in held:
        settled = await verified_apart(claimed[0], verify)
        if isinstance(settled, Failure):
            refused_results.append(claimed[0])
            error = settled.error
            problems = [redactor.text(problem) for problem in error.validation_errors or ()] or None
            update = {"message": redactor.text(error.message), "validation_errors": problems}
            shown = settled.model_copy(update={"error": error.model_copy(update=update)})
            item = as_event_of(context.identity, item.seq, shown, None, timestamp)  # noqa: PLW2901
        context.journal.relay([item])
    answers = [
        RejectedAnswer.of(1 if one.output is None else one.output.retry_count + 1, text_of_answer(one)).redacted(
            redactor
        )
        for one in refused_results
    ]
    return _with_rejected(record, answers, request)


def _with_rejected(record: RunRecord, answers: Sequence[RejectedAnswer], request: RunRequest) -> RunRecord:
    """Return the record with the rejected answers if they may be stored."""
    if not request.keeps_rejected_answers:
        return record
    return replace(record, rejected_answers=(*record.rejected_answers, *answers))


async def retry_until_valid(context: AttemptContext, contract: OutputContract) -> RunRecord:
    """Perform attempts as one run until an answer fits the contract or the loop gives up."""
    ready, request, journal = context.ready, context.ready.request, context.journal
    loop = ContractLoop(
        contract,
        context.identity,
        timestamp,
        can_resume=ready.description.capabilities.resume,
        executor_session_id=ready.session.executor_session_id,
    )

    def relay(batch: Sequence[Relayed]) -> None:
        journal.relay([told for item in batch for told in loop.receive(item)])

    began_at = time.monotonic()
    invocation = without_contract(ready.invocation, contract)
    records: list[RunRecord] = []
    while loop.terminal is None:
        run_id = loop.begin_attempt()
        try:
            limits = _what_is_left(request, ready.invocation["limits"], time.monotonic() - began_at, loop.spent_usd)
            record = await context.perform({**invocation, "run_id": run_id, "limits": limits}, relay)
        except CannotStart as error:
            if not records:
                raise
            failure = error.failure
            if failure.status == "cancelled":
                failure = failed(ErrorType.CANCELLED, "cancelled before the executor was asked again")
            journal.relay(list(loop.fail(failure)))
            break
        journal.relay(await loop.judge_apart())
        records.append(record)
        if loop.next_prompt is not None:
            invocation = asked_again(invocation, loop.executor_session_id, loop.next_prompt)
    together = replace(
        records[-1],
        problem_count=sum(record.problem_count for record in records),
        problems=tuple(problem for record in records for problem in record.problems),
        stop_actions=tuple(action for record in records for action in record.stop_actions),
    )
    return _with_rejected(together, loop.rejected, request)


def _what_is_left(request: RunRequest, limits: JsonValue, elapsed_seconds: float, spent_usd: float) -> JsonObject:
    """Return the limits of the next attempt; all attempts share the limits of the run (AOX-251)."""
    seconds, dollars = request.timeout_seconds, request.max_cost_usd
    left: JsonObject = {}
    if seconds is not None:
        if elapsed_seconds >= seconds:
            sentence = f"the run took longer than the {seconds:g} s that it was given, and no answer fitted by then"
            raise refused(ErrorType.DEADLINE_EXCEEDED, sentence)
        left["timeout_seconds"] = seconds - elapsed_seconds
    if dollars is not None:
        if spent_usd >= dollars:
            sentence = f"the run has cost {spent_usd:.4g} USD of max_cost_usd {dollars:g}, and no answer fitted by then"
            raise refused(ErrorType.LIMIT_EXCEEDED, sentence)
        left["max_cost_usd"] = dollars - spent_usd
    return {**(limits if isinstance(limits, dict) else {}), **left}


DEMANDING_FIELDS: Final = ("output_schema", "output_format", "default_output_schema", "default_output_schema_options")
"""The blueprint fields that are omitted for an executor that enforces no contract."""


def without_contract(invocation: JsonObject, contract: OutputContract) -> JsonObject:
    """Return the invocation for an executor without contract support; a prompt contains the contract instead."""
    blueprint: dict[str, Any] = dict(invocation["agent_blueprint"])  # type: ignore[arg-type]  # it is an object
    for demanding in DEMANDING_FIELDS:
        blueprint.pop(demanding, None)
    if contract.strategy is Strategy.SYSTEM_PROMPT:
        blueprint["system_prompt"] = enrich(blueprint.get("system_prompt"), contract.format)
    kept = {name: value for name, value in invocation.items() if not name.startswith("output_schema")}
    if contract.strategy is Strategy.PROMPT:
        kept["prompt"] = enrich(str(kept["prompt"]), contract.format)
    return {**kept, "agent_blueprint": blueprint}


_SAID_ONCE: Final = ("attachments", "input_responses", "requires")


def asked_again(invocation: JsonObject, executor_session_id: str | None, prompt: str) -> JsonObject:
    """Return the invocation that resumes the executor's session and asks for another answer."""
    return {
        **{name: value for name, value in invocation.items() if name not in _SAID_ONCE},
        "mode": "resume",
        "executor_session_id": executor_session_id,
        "parameters": {"prompt": prompt},
        "prompt": prompt,
    }


_SHOWN_PROBLEMS: Final = 3


def verified(terminal: Terminal, contract: OutputContract, executor_name: str) -> Terminal:
    """Return the terminal event, or a failure if it is a result that violates the contract."""
    problems = [str(problem) for problem in _lies(terminal, contract)] if isinstance(terminal, Result) else []
    if not problems:
        return terminal
    more = len(problems) - _SHOWN_PROBLEMS
    listed = "; ".join(problems[:_SHOWN_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
    message = f"executor {executor_name} claims that its result fits the output contract, but it does not: {listed}"
    failure = failed(ErrorType.PROTOCOL_VIOLATION, message, validation_errors=problems)
    return failure.model_copy(update={"usage": terminal.usage})


async def verified_apart(result: Result, verify: Callable[[Terminal], Terminal]) -> Terminal:
    """Return the result of `verify`, called in another process."""
    try:
        return await call_apart(JUDGING_SECONDS, verify, result)
    except CallNotFinished as error:
        message = f"the result could not be verified by its output contract: {error}; give a shorter result"
        return failed(ErrorType.PROTOCOL_VIOLATION, message).model_copy(update={"usage": result.usage})


def _lies(result: Result, contract: OutputContract) -> Iterator[Problem]:
    output = result.output
    if result.result_text is not None:
        yield Problem(below("$", "result_text"), "is present, but a contract requires result_data")
        return
    if output is None:
        yield Problem("$.output", "is missing, and a result under a contract has it")
    elif output.schema_source != contract.source:
        yield Problem("$.output.schema_source", f"expected {str(contract.source)!r}, found {output.schema_source!r}")
    if output is not None and output.retry_count > contract.max_retries:
        yield Problem("$.output.retry_count", f"expected at most {contract.max_retries}, found {output.retry_count}")
    yield from problems_of_data(result.result_data, contract.format)
