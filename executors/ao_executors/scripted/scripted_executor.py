"""`ao-scripted-exec`: its description and its entry point."""

import os
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from ao_executors import VERSION
from ao_executors.core import Executor, Task, serve
from ao_executors.core.described import capabilities, fields, path
from ao_executors.scripted.script_schema import SCRIPT_SCHEMA, SCRIPT_VARIABLE
from ao_protocol.quick_import import begin_imports

if TYPE_CHECKING:
    from ao_protocol.events import Result

DESCRIPTION: Final = {
    "capabilities": capabilities(
        *("resume", "multi_turn", "cancel", "input", "input_parking"),
        strategies=("system_prompt", "prompt", "extract"),
    ),
    "config_schema": fields(
        {
            "script": SCRIPT_SCHEMA,
            "script_file": path("Path of a JSON or YAML file with the script, instead of `script`."),
        }
    ),
    "environment": [SCRIPT_VARIABLE],
    "model_endpoint": {"ao-script": {"env": SCRIPT_VARIABLE}},
}


async def perform(wire_fd: int, task: Task) -> "Result":
    """Play the next answers of the script."""
    from ao_executors.scripted.scripted_model import perform_script

    return await perform_script(task, wire_fd)


def warm_up() -> None:
    """Import the modules that a run needs."""
    import ao_executors.scripted.scripted_model  # noqa: F401


def main() -> NoReturn:
    """Run the program `ao-scripted-exec`.

    It keeps a descriptor of the real stdout, outside the toolkit, for the fault `garbage`.
    """
    begin_imports()
    wire_fd = os.dup(1)
    serve(Executor("scripted", VERSION, partial(perform, wire_fd), DESCRIPTION, warm_up=warm_up))
