"""What an executor's author writes: a description, and a function that performs a task."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ao_executors.core.task import Task
    from ao_protocol.events import Result
    from ao_protocol.output.native import NativeOutput


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor as data.

    `perform` gets a task whose parameters, config and schemas have been checked, and returns the result or raises
    `RunFailed`. It is cancelled as an asyncio task is; whatever it started it must end then, within the grace.
    `description` holds the further fields of `describe`, as they stand on the wire: `capabilities`,
    `config_schema`, `secrets`, ….
    """

    name: str
    version: str
    perform: "Callable[[Task], Awaitable[Result]]"
    description: Mapping[str, object] = field(default_factory=dict)
    check: Callable[[], list[str]] | None = None

    @property
    def secrets(self) -> list[str]:
        """The names of the variables whose values are to be shown nowhere."""
        names = self.description.get("secrets")
        return [str(name) for name in names] if isinstance(names, list) else []


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said in the end, when asked once.

    `text` is the whole last message; `truncated` says that a limit cut it off. `native` is the provider's structured
    output, where the task's contract is asked for by that strategy and the provider gave any. The message is not yet an
    event: with an output contract, an answer that does not fit is shown to nobody.
    """

    text: str
    message_id: str
    stop_reason: str = "end_turn"
    truncated: bool = False
    native: "NativeOutput | None" = None


class Model(Protocol):
    """A model in the middle of a conversation. `converse` asks it, and asks again where a contract demands it."""

    async def ask(self, text: str) -> Answer:
        """Send a user message and wait for the answer.

        Raises:
            RunFailed: the model did not deliver.
        """
        ...


async def converse(task: "Task", model: Model) -> "Result":
    """Return the result of a task that one model performs by talking.

    Under an output contract the model is asked again until its answer keeps it or the retries are used up (SPEC 9).

    Raises:
        RunFailed: the model did not deliver, or what it delivered does not fit the contract.
    """
    from ao_executors.core.conversation import hold_conversation  # heavy, and not needed before run_started

    return await hold_conversation(task, model)
