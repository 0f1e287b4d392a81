"""`ao-echo-exec`: the smallest executor, which answers with its prompt. A pattern for a new executor."""

from typing import TYPE_CHECKING, NoReturn

from ao_executors import VERSION
from ao_executors.core import Answer, Executor, Task, TextResult, hold_conversation, serve

if TYPE_CHECKING:
    from ao_protocol.events import Result


class Echo:
    """A model that repeats the user's message."""

    async def ask(self, text: str) -> Answer:
        """Return `text`."""
        return Answer(text, message_id="msg_1")


async def perform(task: Task) -> "Result | TextResult":
    """Answer with the text of the task."""
    return await hold_conversation(task, Echo())


def main() -> NoReturn:
    """Run the program `ao-echo-exec`."""
    serve(Executor("echo", VERSION, perform, {"capabilities": {"multi_turn": True, "cancel": True}}))
