"""`ao-echo-exec` answers with what it was asked: the smallest executor, and a pattern for a new one."""

from typing import TYPE_CHECKING, NoReturn

from ao_executors import VERSION
from ao_executors.core import Answer, Executor, Task, TextResult, hold_conversation, serve

if TYPE_CHECKING:
    from ao_protocol.events import Result


class Echo:
    """A model that repeats the user."""

    async def ask(self, text: str) -> Answer:
        """Return `text`."""
        return Answer(text, message_id="msg_1")


async def perform(task: Task) -> "Result | TextResult":
    """Answer the task's text with itself."""
    return await hold_conversation(task, Echo())


def main() -> NoReturn:
    """Be `ao-echo-exec`."""
    serve(Executor("echo", VERSION, perform, {"capabilities": {"multi_turn": True, "cancel": True}}))
