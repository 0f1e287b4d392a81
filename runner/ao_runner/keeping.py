"""A contract that the runner keeps: the events of one attempt after another in, those of a single run out.

Pure. An answer is held back until it has been judged, since one that does not fit stands in no event (SPEC 9.5).
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from ao_protocol.errors import ErrorType
from ao_protocol.events import (
    Body,
    Envelope,
    ErrorInfo,
    Event,
    Failure,
    Heartbeat,
    Log,
    Message,
    MessageDelta,
    OutputValidation,
    Result,
    RetryScheduled,
    RunStarted,
    SessionBound,
    Terminal,
    Usage,
    UsageFigures,
)
from ao_protocol.framing import encode_line
from ao_protocol.output import Accepted, AskAgain, Enforcement, GiveUp, OutputContract, summary_of
from ao_protocol.version import CURRENT
from ao_runner.conversation import Relayed, RunIdentity

_BESIDE: Final = (Log, RetryScheduled)
"""Events that may come between an answer and the end, and do not make it an earlier message."""


@dataclass
class KeptRun:
    """One run under a contract that its executor does not keep.

    Give it what each attempt relays. After an attempt `next_prompt` is what to ask the executor's session, or None
    where the run is over and `terminal` is its end.
    """

    contract: OutputContract
    identity: RunIdentity
    timestamp: Callable[[], str]
    can_resume: bool
    executor_session_id: str | None = None
    next_prompt: str | None = None
    terminal: Terminal | None = None
    attempts: int = 1
    _last_seq: int = 0
    _answer: Relayed | None = None
    _used_before: UsageFigures = field(default_factory=UsageFigures)
    _used: UsageFigures = field(default_factory=UsageFigures)

    def __post_init__(self) -> None:
        if not self.can_resume:
            self.contract = replace(self.contract, max_retries=0)
        self._enforcement = Enforcement(self.contract)

    def begin_attempt(self) -> str:
        """Return the id of the next attempt's run; the first one is that of the run itself."""
        run_id = self.identity.run_id if self._last_seq == 0 else f"{self.identity.run_id}.{self.attempts}"
        self.next_prompt = None
        return run_id

    def receive(self, item: Relayed) -> Iterator[Relayed]:
        """Take an event of an attempt and yield those of the run."""
        match item.event.body:
            case MessageDelta():
                pass  # it may be a piece of an answer that does not fit
            case RunStarted() if self._last_seq > 0:
                pass
            case SessionBound() as bound:
                yield from self._bind(bound, item)
            case Usage() as usage:
                self._used = _sum(self._used_before, usage)
                yield self._write(Usage(**self._used.model_dump()), item)
            case Result() as result:
                yield from self._judge(result, item)
            case Failure() as failure:
                self._answer = None
                yield from self._end(failure, item)
            case Message(role="assistant"):
                yield from self._release()
                self._answer = item
            case Heartbeat(last_progress_seq=seq) as heartbeat:
                # It counts its own events, of which some are held back.
                yield self._write(heartbeat.model_copy(update={"last_progress_seq": min(seq, self._last_seq)}), item)
            case body if isinstance(body, _BESIDE):
                yield self._write(body, item)
            case body:
                yield from self._release()
                yield self._write(body, item)

    def fail(self, failure: Failure) -> Iterator[Relayed]:
        """End the run in the runner's name, between two attempts."""
        error = failure.error.model_copy(update={"side_effects": "possible"})
        yield from self._end(failure.model_copy(update={"error": error}), None)

    def _bind(self, bound: SessionBound, item: Relayed) -> Iterator[Relayed]:
        is_known = self.executor_session_id == bound.executor_session_id and self.attempts > 1
        self.executor_session_id = bound.executor_session_id
        if not is_known:
            yield self._write(bound, item)

    def _judge(self, result: Result, item: Relayed) -> Iterator[Relayed]:
        text = result.result_text
        if result.usage is not None:
            self._used = _sum(self._used_before, result.usage)
        outcome = self._enforcement.judge(
            json.dumps(result.result_data, ensure_ascii=False) if text is None else text,
            truncated=bool(result.truncated) or result.stop_reason == "max_tokens",
        )
        if isinstance(outcome, AskAgain) and self.executor_session_id is None:
            # It said that it can resume, and announced no session.
            outcome = GiveUp(outcome.problems, outcome.attempt, self.contract.error_type)
        match outcome:
            case Accepted():
                yield from self._accept(outcome, result, item)
            case AskAgain(prompt=prompt, problems=problems, retries_left=left, attempt=attempt):
                self._answer = None
                yield self._write(_verdict(attempt, [str(problem) for problem in problems], left))
                self._used_before = self._used
                self.next_prompt = prompt
                self.attempts += 1
            case GiveUp(problems=problems, attempt=attempt):
                self._answer = None
                errors = [str(problem) for problem in problems]
                if outcome.error_type is not ErrorType.OUTPUT_TRUNCATED:
                    yield self._write(_verdict(attempt, errors, 0))
                yield from self._end(_not_kept(outcome, errors), None)
            case unknown:
                assert_never(unknown)

    def _accept(self, outcome: Accepted, result: Result, item: Relayed) -> Iterator[Relayed]:
        left = self.contract.max_retries - outcome.retry_count
        yield self._write(OutputValidation(attempt=outcome.retry_count + 1, valid=True, errors=[], retries_left=left))
        yield from self._release()
        kept = result.model_copy(
            update={
                "result_text": None,
                "result_data": outcome.value,
                "output": summary_of(self.contract, outcome),
                "usage": None if result.usage is None else self._used,
            }
        )
        yield from self._end(kept, item)

    def _end(self, terminal: Terminal, item: Relayed | None) -> Iterator[Relayed]:
        if self._last_seq == 0:
            yield self._write(RunStarted(schema_version=str(CURRENT), executor=self.identity.executor))
        self.terminal = terminal
        yield self._write(terminal, item)

    def _release(self) -> Iterator[Relayed]:
        if self._answer is not None:
            yield self._write(self._answer.event.body, self._answer)
            self._answer = None

    def _write(self, body: Body, received: Relayed | None = None) -> Relayed:
        self._last_seq += 1
        envelope = Envelope(
            session_id=self.identity.session_id,
            run_id=self.identity.run_id,
            seq=self._last_seq,
            timestamp=self.timestamp() if received is None else received.event.envelope.timestamp,
        )
        if received is not None and received.event.envelope == envelope and received.event.body is body:
            return received
        event = Event.model_construct(envelope=envelope, body=body)
        # Fields that are unknown here are passed on, too.
        unknown = {} if received is None else json.loads(received.line)
        return Relayed(event, encode_line({**unknown, **event.to_document()}).rstrip(b"\n"))


def _verdict(attempt: int, errors: list[str], retries_left: int) -> OutputValidation:
    return OutputValidation(attempt=attempt, valid=False, errors=errors, retries_left=retries_left)


def _not_kept(outcome: GiveUp, errors: list[str]) -> Failure:
    is_truncated = outcome.error_type is ErrorType.OUTPUT_TRUNCATED
    error = ErrorInfo(
        type=outcome.error_type,
        message=outcome.message,
        retryable=False,
        side_effects="possible",
        origin="model",
        validation_errors=None if is_truncated else errors,
    )
    return Failure(status="failed", error=error)


def _sum(before: UsageFigures, since: UsageFigures) -> UsageFigures:
    """Add up figures of two processes, each of which counts from its own start."""
    names = UsageFigures.model_fields
    both = {name: [v for v in (getattr(before, name), getattr(since, name)) if v is not None] for name in names}
    return UsageFigures(**{name: sum(values) for name, values in both.items() if values})
