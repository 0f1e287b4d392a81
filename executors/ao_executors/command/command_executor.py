"""`ao-command-exec`: its description and its entry point."""

from typing import TYPE_CHECKING, Final, NoReturn

from ao_executors import VERSION
from ao_executors.core import Executor, Task, serve
from ao_executors.core.described import argv, capabilities, fields, table, text
from ao_protocol.errors import REFUSALS, RUNNER_ONLY, ErrorType
from ao_protocol.quick_import import begin_imports

if TYPE_CHECKING:
    from ao_protocol.events import Result

_OF_PROGRAMS: Final = {
    "enum": [str(known) for known in ErrorType if known not in REFUSALS | RUNNER_ONLY | {ErrorType.CANCELLED}]
}

DESCRIPTION: Final = {
    "capabilities": capabilities("resume", "cancel", strategies=("system_prompt", "prompt", "extract")),
    "config_schema": fields(
        {
            "argv": argv(
                "The program and its arguments; no shell. {prompt}, {system_prompt} and {session_id} "
                "are replaced. Without {prompt} the prompt is its stdin."
            ),
            "resume_argv": argv("The same for a resume, with {session_id}. Without it a run cannot be resumed."),
            "session_pattern": text(
                "Python regular expression whose first group is the program's id of the session, on "
                "stderr or in JSON on stdout. Without it argv has {session_id}, a new UUID."
            ),
            "session_file": text(
                "Path, with {session_id} and perhaps ~, of a file that each session of the program has."
            ),
            "output": text(
                "The answer: the `text` on stdout, or a path such as $.response in the JSON there.",
                pattern="^(text|\\$(\\.[^.]+)+)$",
                default="text",
            ),
            "exit_codes": table(
                "Exit codes and the types of the errors that they stand for. Others are tool_failed.",
                propertyNames={"pattern": "^[1-9][0-9]{0,2}$"},
                additionalProperties=_OF_PROGRAMS,
            ),
            "error_patterns": table(
                "Python regular expressions and error types. The first that is found in what a failed "
                "program prints on stderr comes before exit_codes. A group retry_after_seconds is a delay.",
                additionalProperties=_OF_PROGRAMS,
            ),
            "install_hint": text("What to do where the program is missing."),
        },
        required=("argv",),
    ),
    "model_endpoint": {
        "anthropic": {"env": "ANTHROPIC_BASE_URL", "api_key_env": "ANTHROPIC_API_KEY"},
        "openai-chat": {"env": "OPENAI_BASE_URL", "api_key_env": "OPENAI_API_KEY"},
        "gemini": {"env": "GOOGLE_GEMINI_BASE_URL", "api_key_env": "GEMINI_API_KEY"},
    },
}


async def perform(task: Task) -> "Result":
    """Ask the configured program."""
    from ao_executors.command.asked_program import perform_by_program

    return await perform_by_program(task)


def warm_up() -> None:
    """Import the modules that a run needs."""
    import ao_executors.command.asked_program  # noqa: F401


def main() -> NoReturn:
    """Run the program `ao-command-exec`."""
    begin_imports()
    unkept = {
        "max_turns": "the program does not tell how often it asks its model",
        "max_cost_usd": "the program does not tell what it costs",
    }
    serve(Executor("command", VERSION, perform, DESCRIPTION, warm_up=warm_up, unkept_limits=unkept))
