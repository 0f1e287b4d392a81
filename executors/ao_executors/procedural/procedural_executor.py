"""`ao-procedural-exec`: its description and its entry point."""

from typing import TYPE_CHECKING, Final, NoReturn

from ao_executors import VERSION
from ao_executors.core import Executor, Task, serve
from ao_executors.core.described import capabilities, fields, integer, number, path, variables
from ao_protocol.quick_import import begin_imports

if TYPE_CHECKING:
    from ao_protocol.events import Result

DEFAULT_MAX_OUTPUT_BYTES: Final = 8 * 1024 * 1024

DESCRIPTION: Final = {
    "agent_types": ["procedural"],
    "capabilities": capabilities("cancel", strategies=("extract",)),
    "config_schema": fields(
        {
            "commands_dir": path("Folder of the blueprint's command. Default: the project directory."),
            "timeout_seconds": number(
                "Time limit of the command; limits.timeout_seconds applies as well.", exclusiveMinimum=0
            ),
            "max_output_bytes": integer(
                "Number of bytes kept from the end of stdout and of stderr.",
                minimum=1024,
                default=DEFAULT_MAX_OUTPUT_BYTES,
            ),
            "env": variables("the command; they override the executor's"),
        }
    ),
}


async def perform(task: Task) -> "Result":
    """Run the command of the blueprint."""
    from ao_executors.procedural.command_result import perform_command

    return await perform_command(task, DEFAULT_MAX_OUTPUT_BYTES)


def warm_up() -> None:
    """Import the modules that a run needs."""
    import ao_executors.procedural.command_result  # noqa: F401


def main() -> NoReturn:
    """Run the program `ao-procedural-exec`."""
    begin_imports()
    serve(Executor("procedural", VERSION, perform, DESCRIPTION, warm_up=warm_up))
