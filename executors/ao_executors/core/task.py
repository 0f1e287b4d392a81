"""A task: an invocation that has been checked, with everything that its executor needs to perform it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Connection
from ao_executors.core.terms import Terms

if TYPE_CHECKING:
    from ao_protocol.contracts.contract import OutputContract
    from ao_protocol.documents import Invocation
    from ao_protocol.wire import JsonObject


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of a run before anything is asked.

    All of it but `read_invocation` is the same for every run of a process: a turn brings parameters and a `run_id` of
    its own. `system_prompt` is the blueprint's; None where there is none. `config` is the `executor_config`, checked
    against the executor's `config_schema`. `terms` are what the toolkit itself goes by.
    """

    terms: Terms
    system_prompt: str | None
    contract: "OutputContract | None"
    config: "JsonObject"
    project_dir: Path
    read_invocation: "Callable[[], Invocation]"

    @property
    def invocation(self) -> "Invocation":
        """The whole invocation. Where nothing but a prompt is asked, its models are imported when it is first read."""
        return self.read_invocation()


@dataclass(frozen=True, slots=True)
class Task(Setting):
    """What `perform` gets.

    `text` is what the model is to read: the prompt itself or the `<inputs>` block. It or `system_prompt` has the demand
    of the output contract as its last section, as the contract's strategy says; with the strategy `native` neither
    has, and the executor hands the schema to its provider. `connection` is what the executor's `connect` yielded;
    None where it has none. `linger` is there in a test only: it is awaited once before the answer is said.
    """

    text: str
    events: Emitter
    connection: Connection | None = None
    linger: Callable[[], Awaitable[None]] | None = None
