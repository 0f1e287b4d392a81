"""Perform a task in a conversation with one model, which is asked again until its answer is valid (SPEC 9).

Internal, except for `converse` and `hold_conversation`, which `ao_executors.core` exports.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, assert_never

from ao_executors.core.executor import Answer, Model, RunFailed, Task, TextResult
from ao_executors.core.executor_process import left_behind
from ao_protocol.errors import ErrorType
from ao_protocol.short_text import keep_end

if TYPE_CHECKING:  # a run without a contract does not need the pydantic models
    from ao_protocol.contracts import AskAgain, GiveUp, OutputContract
    from ao_protocol.events import Result

_MAX_NAMED_LEFTOVERS: Final = 5
_MAX_COMMAND_CHARACTERS: Final = 300


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
        task.events.warn(message)


async def _retry_until_valid(task: Task, contract: "OutputContract", model: Model) -> "Result":
    from ao_protocol.contracts import Accepted, AskAgain, Enforcement, GiveUp, summary_of
    from ao_protocol.events import OutputValidation, Result

    enforcement, text = Enforcement(contract), task.text
    while True:
        answer = await _ask(task, model, text)
        outcome = enforcement.judge(answer.text, truncated=answer.truncated, native=answer.native)
        match outcome:
            case Accepted(value=value, retry_count=count):
                left = contract.max_retries - count
                task.events.emit(OutputValidation(attempt=count + 1, valid=True, errors=[], retries_left=left))
                _say(answer, task)
                summary = summary_of(contract, outcome)
                return Result(result_text=None, result_data=value, stop_reason=answer.stop_reason, output=summary)
            case AskAgain(prompt=text):
                _reject(answer, outcome, task, outcome.retries_left)
            case GiveUp(error_type=error_type, problems=problems, message=message):
                _reject(answer, outcome, task, retries_left=0)
                if error_type is ErrorType.OUTPUT_TRUNCATED:
                    raise _truncated(answer)
                errors = {"validation_errors": [str(problem) for problem in problems]}
                raise RunFailed(error_type, message, origin="model", extra=errors)
            case unknown:
                assert_never(unknown)


async def _ask(task: Task, model: Model, text: str) -> Answer:
    answer = await model.ask(text)
    if task.linger is not None:
        await task.linger()
    return answer


def _reject(answer: Answer, outcome: "AskAgain | GiveUp", task: Task, retries_left: int) -> None:
    """Pass an invalid answer to the runner, if requested, and emit its problems. No event contains the answer."""
    from ao_protocol.events import OutputValidation
    from ao_protocol.rejected_answers import RejectedAnswer, leave_answer

    leave_answer(os.environ, RejectedAnswer.of(outcome.attempt, answer.text))
    if not answer.truncated:
        errors = [str(problem) for problem in outcome.problems]
        event = OutputValidation(attempt=outcome.attempt, valid=False, errors=errors, retries_left=retries_left)
        task.events.emit(event)


def _say(answer: Answer, task: Task) -> None:
    """Emit the answer as `message`, unless it is emitted already or has structured output only."""
    if answer.is_said or (not answer.text and answer.native is not None):
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
