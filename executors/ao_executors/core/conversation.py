"""A task that one model performs by talking (SPEC 9)."""

from typing import TYPE_CHECKING

from ao_executors.core.answers import ask, say, truncated
from ao_executors.core.executor import Model, TextResult
from ao_executors.core.task import Task

if TYPE_CHECKING:
    from ao_protocol.events import Result


async def hold_conversation(task: Task, model: Model) -> "Result | TextResult":
    """Return the result of a task that one model performs by talking.

    Raises:
        RunFailed: the model did not deliver, or what it delivered does not fit the contract.
    """
    if task.contract is not None:
        from ao_executors.core.contract_keeping import ask_until_accepted

        return await ask_until_accepted(task, task.contract, model)
    answer = await ask(model, task.text, task)
    say(answer, task.events)
    if answer.truncated:
        raise truncated(answer)
    return TextResult(answer.text, answer.stop_reason)
