"""Asks a model until its answer keeps the output contract, or the contract gives up (SPEC 9)."""

import os
from typing import assert_never

from ao_executors.core.answers import ask, say, truncated
from ao_executors.core.executor import Answer, Model
from ao_executors.core.failures import validation_failed
from ao_executors.core.task import Task
from ao_protocol.contracts import Accepted, AskAgain, Enforcement, GiveUp, OutputContract, summary_of
from ao_protocol.errors import ErrorType
from ao_protocol.events import OutputValidation, Result


async def ask_until_accepted(task: Task, contract: OutputContract, model: Model) -> Result:
    """Return the result of a task whose answer keeps a contract.

    Raises:
        RunFailed: the model did not deliver, or what it delivered does not fit the contract.
    """
    enforcement = Enforcement(contract)
    text = task.text
    while True:
        answer = await ask(model, text, task)
        outcome = enforcement.judge(answer.text, truncated=answer.truncated, native=answer.native)
        match outcome:
            case Accepted(retry_count=retries):
                left = contract.max_retries - retries
                verdict = OutputValidation(attempt=retries + 1, valid=True, errors=[], retries_left=left)
                task.events.emit(verdict)
                say(answer, task.events)
                return _accepted(outcome, contract, answer)
            case AskAgain(prompt=text):
                _leave(answer, outcome)
                task.events.emit(_refusal(outcome, outcome.retries_left))
            case GiveUp(error_type=ErrorType.OUTPUT_TRUNCATED):
                _leave(answer, outcome)
                raise truncated(answer)
            case GiveUp(error_type=error_type, problems=problems, message=message):
                _leave(answer, outcome)
                task.events.emit(_refusal(outcome, retries_left=0))
                raise validation_failed(error_type, message, problems)
            case unknown:
                assert_never(unknown)


def _leave(answer: Answer, outcome: AskAgain | GiveUp) -> None:
    """Leave an answer that does not fit to the runner, where it wants it; it stands in no event."""
    from ao_protocol.rejected_answers import RejectedAnswer, leave_answer

    leave_answer(os.environ, RejectedAnswer.of(outcome.attempt, answer.text))


def _refusal(outcome: AskAgain | GiveUp, retries_left: int) -> OutputValidation:
    errors = [str(problem) for problem in outcome.problems]
    return OutputValidation(attempt=outcome.attempt, valid=False, errors=errors, retries_left=retries_left)


def _accepted(outcome: Accepted, contract: OutputContract, answer: Answer) -> Result:
    return Result(
        result_text=None,
        result_data=outcome.value,
        stop_reason=answer.stop_reason,
        output=summary_of(contract, outcome),
    )
