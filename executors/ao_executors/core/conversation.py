"""Asks a model until its answer keeps the output contract, or the contract gives up (SPEC 9)."""

from typing import assert_never

from ao_executors.core.executor import Answer, Model
from ao_executors.core.failures import RunFailed, validation_failed
from ao_executors.core.task import Task
from ao_protocol.errors import ErrorType
from ao_protocol.events import Message, OutputValidation, Result, TextBlock
from ao_protocol.output import Accepted, AskAgain, Enforcement, GiveUp, OutputContract, summary_of


async def hold_conversation(task: Task, model: Model) -> Result:
    """Return the result of a task that one model performs by talking.

    Raises:
        RunFailed: the model did not deliver, or what it delivered does not fit the contract.
    """
    if task.contract is None:
        answer = await model.ask(task.text)
        _show(task, answer)
        if answer.truncated:
            raise _truncated(answer)
        return Result(result_text=answer.text, result_data=None, stop_reason=answer.stop_reason)
    return await _until_accepted(task, task.contract, model)


async def _until_accepted(task: Task, contract: OutputContract, model: Model) -> Result:
    enforcement = Enforcement(contract)
    text = task.text
    while True:
        answer = await model.ask(text)
        outcome = enforcement.judge(answer.text, truncated=answer.truncated, native=answer.native)
        match outcome:
            case Accepted(retry_count=retries):
                left = contract.max_retries - retries
                verdict = OutputValidation(attempt=retries + 1, valid=True, errors=[], retries_left=left)
                task.events.emit(verdict)
                _show(task, answer)
                return _accepted(outcome, contract, answer)
            case AskAgain(prompt=text):
                task.events.emit(_refusal(outcome, outcome.retries_left))
            case GiveUp(error_type=ErrorType.OUTPUT_TRUNCATED):
                raise _truncated(answer)
            case GiveUp(error_type=error_type, problems=problems, message=message):
                task.events.emit(_refusal(outcome, retries_left=0))
                raise validation_failed(error_type, message, problems)
            case unknown:
                assert_never(unknown)


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


def _show(task: Task, answer: Answer) -> None:
    if answer.text or answer.native is None:
        message = Message(message_id=answer.message_id, role="assistant", content=[TextBlock(text=answer.text)])
        task.events.emit(message)


def _truncated(answer: Answer) -> RunFailed:
    return RunFailed(
        ErrorType.OUTPUT_TRUNCATED,
        f"the answer was cut off after {len(answer.text)} characters (stop_reason {answer.stop_reason}); "
        "asking again would meet the same limit: ask for less, or raise the model's output limit",
        origin="model",
    )
