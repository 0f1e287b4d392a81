"""A model's answer, and what becomes of it on the wire: a message, or the failure of one that was cut off."""

from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Answer, Model
from ao_executors.core.failures import RunFailed
from ao_executors.core.task import Task
from ao_protocol.errors import ErrorType


async def ask(model: Model, text: str, task: Task) -> Answer:
    """Send a user message and wait for the answer, and longer where a test wants it.

    Raises:
        RunFailed: the model did not deliver.
    """
    answer = await model.ask(text)
    if task.linger is not None:
        await task.linger()
    return answer


def say(answer: Answer, events: Emitter) -> None:
    """Write the answer's message, unless it is out, or a provider's structured output is all there is."""
    if answer.is_said or (not answer.text and answer.native is not None):
        return
    content = [{"type": "text", "text": answer.text}]
    events.emit_fields("message", {"message_id": answer.message_id, "role": "assistant", "content": content})


def truncated(answer: Answer) -> RunFailed:
    """Make the failure of a run whose answer a limit has cut off."""
    return RunFailed(
        ErrorType.OUTPUT_TRUNCATED,
        f"the answer was cut off after {len(answer.text)} characters (stop_reason {answer.stop_reason}); "
        "asking again would meet the same limit: ask for less, or raise the model's output limit",
        origin="model",
    )
