"""Perform a task in a conversation with one model, which is asked again until its answer is valid (SPEC 9).

Internal, except for `converse` and `hold_conversation`, which `ao_executors.core` exports.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, assert_never, cast

from ao_executors.core.executor import Answer, Model, RunFailed, Task, TextResult
from ao_executors.core.executor_process import left_behind
from ao_protocol.errors import ErrorType
from ao_protocol.short_text import keep_end

if TYPE_CHECKING:  # a run without a contract does not need the pydantic models
    from pydantic import JsonValue

    from ao_protocol.contracts import Accepted, AskAgain, Enforcement, GiveUp, Outcome, OutputContract
    from ao_protocol.events import Result

_MAX_NAMED_LEFTOVERS: Final = 5
_MAX_COMMAND_CHARACTERS: Final = 300
_MODEL_THINKS_SECONDS: Final = 0.02
"""After this time the first question has been sent, and what its answer needs is imported meanwhile."""


async def converse(task: Task, model: Model) -> "Result":
    """Perform a task by asking one model.

    Under an output contract the model is asked again until its answer is valid or the retries are used up (SPEC 9).

    Args:
        task: The argument of `perform`.
        model: Answers `task.text` and further questions, in one conversation.

    Returns:
        The result, without `usage`: the terminal event gets that of the last `usage` event.

    Raises:
        RunFailed: The model returned no answer, a limit cut it off, or no answer satisfies the contract.
    """
    result = await hold_conversation(task, model)
    if not isinstance(result, TextResult):
        return result
    from ao_protocol.events import Result

    return Result(result_text=result.text, result_data=None, stop_reason=result.stop_reason)


async def hold_conversation(task: Task, model: Model) -> "Result | TextResult":
    """Perform a task by asking one model, like `converse`, but import pydantic models only under an output contract.

    Args:
        task: The argument of `perform`.
        model: As for `converse`.

    Returns:
        A `TextResult` without an output contract, a `Result` under one.

    Raises:
        RunFailed: As for `converse`.
    """
    if task.contract is not None:
        import asyncio

        asyncio.get_running_loop().call_later(_MODEL_THINKS_SECONDS, import_module, "ao_protocol.extraction")
        result = await _retry_until_valid(task, task.contract, model)
        _warn_of_leftovers(task)
        return result
    answer = await _ask(task, model, task.text)
    _say(answer, task)
    if answer.truncated:
        raise _truncated(answer)
    _warn_of_leftovers(task)
    return TextResult(answer.text, answer.stop_reason)


def _warn_of_leftovers(task: Task) -> None:
    """Name the processes that the end of the run will end, although somebody may count on them."""
    for command in [] if task.limits.takes_turns else left_behind()[:_MAX_NAMED_LEFTOVERS]:
        # A tool's own wrapper may stand before the command.
        named = keep_end(command, _MAX_COMMAND_CHARACTERS)
        message = f"a process that a tool has left running ends with the run: {named}"
        task.events.warn_unfinished(message)


async def _retry_until_valid(task: Task, contract: "OutputContract", model: Model) -> "Result":
    from ao_protocol.contracts import Accepted, AskAgain, Enforcement, GiveUp, Strategy, summary_of
    from ao_protocol.events import Result

    enforcement, text = Enforcement(contract), task.text
    submissions = Submissions(task, contract, enforcement)
    if contract.strategy is Strategy.TOOL:
        cast("SubmittingModel", model).offer_tool(submissions)
    while True:
        try:
            answer = await _ask(task, model, text)
        except RunFailed:
            if submissions.accepted is None:
                raise
            answer = Answer("", "msg")  # what happens after the accepted call does not change it (AOX-184)
        outcome = submissions.accepted or enforcement.judge(
            answer.text, truncated=answer.truncated, native=answer.native
        )
        match outcome:
            case Accepted(value=value):
                if submissions.accepted is None:
                    _accept(outcome, task, contract)
                _say(answer, task)
                summary = summary_of(contract, outcome)
                return Result(result_text=None, result_data=value, stop_reason=answer.stop_reason, output=summary)
            case AskAgain(prompt=text):
                _reject(answer.text, outcome, task, outcome.retries_left, is_cut_off=answer.truncated)
            case GiveUp():
                _reject(answer.text, outcome, task, retries_left=0, is_cut_off=answer.truncated)
                if outcome.error_type is ErrorType.OUTPUT_TRUNCATED:
                    raise _truncated(answer)
                raise _given_up(outcome)
            case unknown:
                assert_never(unknown)


class Submissions:
    """The calls of the tool `submit_answer` in a run with the strategy `tool` (SPEC 9.9)."""

    def __init__(self, task: Task, contract: "OutputContract", enforcement: "Enforcement") -> None:
        self.accepted: Accepted | None = None
        self.failure: RunFailed | None = None
        self.count = 0
        """How many calls were judged."""
        self._task, self._contract, self._enforcement = task, contract, enforcement

    @property
    def is_over(self) -> bool:
        """Whether no further call counts."""
        return self.accepted is not None or self.failure is not None

    def submit(self, given: "JsonValue") -> tuple[str, bool]:
        """Judge the input of a call, and report it. Return the answer for the model, and whether it is an error."""
        self.count += 1
        if self.is_over:
            return "An answer was submitted before, and the run ends with it.", self.failure is not None
        return self._report(self._enforcement.submit(given), json.dumps(given, ensure_ascii=False))

    def refuse(self, reason: str) -> None:
        """Report a call that the agent itself has refused, such as one whose input does not fit the schema."""
        self.count += 1
        if not self.is_over:
            self._report(self._enforcement.refuse(reason), "")

    def _report(self, outcome: "Outcome", given: str) -> tuple[str, bool]:
        from ao_protocol.contracts import Accepted, AskAgain

        if isinstance(outcome, Accepted):
            self.accepted = outcome
            _accept(outcome, self._task, self._contract)
            return "The answer is accepted. Nothing is left to do.", False
        _reject(given, outcome, self._task, outcome.retries_left if isinstance(outcome, AskAgain) else 0)
        if isinstance(outcome, AskAgain):
            return outcome.prompt, True
        self.failure = _given_up(outcome)
        return outcome.message, True


class SubmittingModel(Model, Protocol):
    """A model that can be given the tool `submit_answer`; the strategy `tool` needs one."""

    def offer_tool(self, submissions: Submissions) -> None:
        """Let the calls of the tool be judged by `submissions`, as long as the conversation lasts."""
        ...


async def _ask(task: Task, model: Model, text: str) -> Answer:
    answer = await model.ask(text)
    if task.linger is not None:
        await task.linger()
    return answer


def _accept(outcome: "Accepted", task: Task, contract: "OutputContract") -> None:
    from ao_protocol.events import OutputValidation

    left = contract.max_retries - outcome.retry_count
    task.events.emit(OutputValidation(attempt=outcome.retry_count + 1, valid=True, errors=[], retries_left=left))


def _given_up(outcome: "GiveUp") -> RunFailed:
    errors = {"validation_errors": [str(problem) for problem in outcome.problems]}
    return RunFailed(outcome.error_type, outcome.message, origin="model", extra=errors)


def _reject(
    answer: str, outcome: "AskAgain | GiveUp", task: Task, retries_left: int, *, is_cut_off: bool = False
) -> None:
    """Pass an invalid answer to the runner, if requested, and emit its problems. No event contains the answer."""
    from ao_protocol.events import OutputValidation
    from ao_protocol.rejected_answers import RejectedAnswer, leave_answer

    leave_answer(os.environ, RejectedAnswer.of(outcome.attempt, answer))
    if not is_cut_off:
        errors = [str(problem) for problem in outcome.problems]
        event = OutputValidation(attempt=outcome.attempt, valid=False, errors=errors, retries_left=retries_left)
        task.events.emit(event)


def _say(answer: Answer, task: Task) -> None:
    """Emit the answer as `message`, unless it is emitted already or has structured output only."""
    is_only_data = answer.native is not None or task.contract is not None
    if answer.is_said or (not answer.text and is_only_data):
        return
    content = [{"type": "text", "text": answer.text}]
    task.events.emit_fields("message", {"message_id": answer.message_id, "role": "assistant", "content": content})


def _truncated(answer: Answer) -> RunFailed:
    return RunFailed(
        ErrorType.OUTPUT_TRUNCATED,
        f"the answer was cut off after {len(answer.text)} characters (stop_reason {answer.stop_reason}); "
        "asking again would meet the same limit: ask for less, or raise the model's output limit",
        origin="model",
    )


@contextmanager
def occupy(owner: str, session: str) -> Iterator[None]:
    """Lock a session of `owner`, an executor or a program, for the duration of a run (SPEC 4.3).

    The lock is an abstract socket of Linux, which leaves no file and ends with its process. On other systems nothing is
    locked.

    Raises:
        RunFailed: Another run holds the session (`session_busy`).
    """
    import hashlib
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as place:
        if sys.platform == "linux":
            try:
                place.bind(f"\0ao-{hashlib.sha256(f'{owner} {session}'.encode()).hexdigest()}")
            except OSError as error:
                message = f"another run is using the session {session}; retry when it has ended"
                raise RunFailed(ErrorType.SESSION_BUSY, message, origin="caller") from error
        yield
