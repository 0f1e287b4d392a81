"""What an executor's author writes: a description, and a function that performs a task."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from ao_executors.core.task import Setting, Task
    from ao_protocol.contracts.prompts import NativeOutput
    from ao_protocol.events import Result


class Connection(Protocol):
    """What an executor keeps from run to run: a model session that is connected."""

    @property
    def is_alive(self) -> bool:
        """Whether another run can be performed with it. Where it cannot, the process leaves after the run."""
        ...


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor as data.

    `perform` gets a task whose parameters, config and schemas have been checked, and returns the result or raises
    `RunFailed`. It is cancelled as an asyncio task is; whatever it started it must end then, within the grace.
    `description` holds the further fields of `describe`, as they stand on the wire: `capabilities`,
    `config_schema`, `secrets`, ….

    `warm_up` imports what `perform` will need. It is called where the process is started before there is anything
    to do, and touches neither network, credentials nor the workspace (SPEC 10).

    `check` is called for `check` alone, in a process of its own: it returns a sentence for each thing that is missing
    for a run, nothing where all is there, and spends nothing. None is an executor without the capability.

    `connect` is for what outlives a run. It is entered before the first `perform`, which finds what it yields as
    `task.connection`, and left, in the same asyncio task, before the process ends. It writes no event. With the
    capability `prepare` it may be entered before the invocation is there (SPEC 4.5).
    """

    name: str
    version: str
    perform: "Perform"
    description: Mapping[str, object] = field(default_factory=dict)
    check: Callable[[], list[str]] | None = None
    warm_up: Callable[[], None] | None = None
    connect: "Callable[[Setting], AbstractAsyncContextManager[Connection]] | None" = None
    starts_mcp_servers: bool = False
    """Whether its model gets the blueprint's MCP servers. Where it does not, a run that names some fails (AOX-052)."""

    @property
    def agent_types(self) -> list[str]:
        """The types of agents that it serves."""
        types = self.description.get("agent_types", ["autonomous"])
        return [str(name) for name in types] if isinstance(types, list) else []

    @property
    def secrets(self) -> list[str]:
        """The names of the variables whose values are to be shown nowhere."""
        names = self.description.get("secrets")
        return [str(name) for name in names] if isinstance(names, list) else []

    def declares(self, capability: str) -> bool:
        """Return whether a capability that is a yes or a no stands in the description."""
        capabilities = self.description.get("capabilities")
        return isinstance(capabilities, Mapping) and capabilities.get(capability) is True


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said in the end, when asked once.

    `text` is the whole last message; `truncated` says that a limit cut it off. `native` is the provider's structured
    output, where the task's contract is asked for by that strategy and the provider gave any. `is_said` says that its
    text has been written as `message` events. With an output contract it must not be: an answer that does not fit is
    shown to nobody.
    """

    text: str
    message_id: str
    stop_reason: str = "end_turn"
    truncated: bool = False
    native: "NativeOutput | None" = None
    is_said: bool = False

    def __post_init__(self) -> None:
        for name, given in (("message_id", self.message_id), ("stop_reason", self.stop_reason)):
            if not isinstance(given, str) or not given:
                raise TypeError(f"Answer.{name} is {given!r}; expected a text that is not empty")
        if not isinstance(self.text, str):
            raise TypeError(f"Answer.text is {self.text!r}; expected a text")


@dataclass(frozen=True, slots=True)
class TextResult:
    """A result that is what a model said, where no output contract asks for data; `Result` says everything else.

    It costs no import.
    """

    text: str
    stop_reason: str


Perform: TypeAlias = "Callable[[Task], Awaitable[Result | TextResult]]"


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
    Whoever adds nothing to the result need not import its model: `hold_conversation` gives it as it is.

    Raises:
        RunFailed: the model did not deliver, or what it delivered does not fit the contract.
    """
    from ao_executors.core.conversation import hold_conversation  # not needed before run_started
    from ao_protocol.events import Result

    result = await hold_conversation(task, model)
    if isinstance(result, TextResult):
        return Result(result_text=result.text, result_data=None, stop_reason=result.stop_reason)
    return result
