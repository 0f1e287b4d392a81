"""A task: an invocation that has been checked, with everything that its executor needs to perform it."""

from dataclasses import dataclass
from pathlib import Path

from ao_executors.core.emitter import Emitter
from ao_protocol.invocation import Invocation
from ao_protocol.output.contract import OutputContract
from ao_protocol.wire import JsonObject


@dataclass(frozen=True, slots=True)
class Task:
    """What `perform` gets.

    `text` is what the model is to read: the prompt itself or the `<inputs>` block. `system_prompt` is the blueprint's;
    None where there is none. One of them has the demand of the output contract as its last section, as the contract's
    strategy says; with the strategy `native` neither has, and the executor hands the schema to its provider.
    `config` is the run's `executor_config`, checked against the executor's `config_schema`.
    """

    invocation: Invocation
    text: str
    system_prompt: str | None
    contract: OutputContract | None
    config: JsonObject
    project_dir: Path
    events: Emitter
