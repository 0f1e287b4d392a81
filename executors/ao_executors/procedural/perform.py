"""The story of one run of a command: its arguments, its program, its end, its result."""

import asyncio
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from ao_executors.core import RunFailed, Task
from ao_executors.core.program import ProgramEnded, ProgramRun
from ao_executors.procedural.command_line import Command, NotAnArgument, arguments_of, find_command
from ao_executors.procedural.outcome import result_of
from ao_protocol.errors import ErrorType
from ao_protocol.events import Result, ToolFinished, ToolStarted
from ao_protocol.inputs import parameters_schema_for
from ao_protocol.wire import JsonObject

_CALL_ID: Final = "command_1"


async def perform_command(task: Task, default_max_output_bytes: int) -> Result:
    """Run the command of a procedural agent and return what it printed.

    Raises:
        RunFailed: there is no such command, it took too long, or its output does not keep the contract.
    """
    arguments = _arguments(task)
    folder = Path(str(task.config.get("commands_dir", task.project_dir)))
    command = find_command(task.invocation.agent_blueprint, folder)
    max_output_bytes = cast("int", task.config.get("max_output_bytes", default_max_output_bytes))  # the schema says so
    environment = cast("dict[str, str]", task.config.get("env", {}))  # as above
    argv = [str(command.program), *command.arguments, *arguments]
    ended = await _run_in_time(command, ProgramRun(argv, max_output_bytes, env=environment), task)
    return result_of(command.name, ended, task)


def _arguments(task: Task) -> list[str]:
    try:
        return arguments_of(task.invocation.parameters)
    except NotAnArgument as error:
        texts = list(map(str, error.problems))
        details = {"validation_errors": texts, "schema": parameters_schema_for(task.invocation)}
        raise RunFailed(
            ErrorType.PARAMETERS_VALIDATION_FAILED,
            str(error),
            origin="caller",
            extra={"validation_errors": texts, "details": details},
        ) from error


async def _run_in_time(command: Command, run: ProgramRun, task: Task) -> ProgramEnded:
    seconds = cast("float | None", task.config.get("timeout_seconds"))  # the config schema says so
    try:
        async with asyncio.timeout(seconds) as deadline:
            return await _run(command, run, task)
    except TimeoutError as error:
        if not deadline.expired():
            raise
        message = f"{command.name} took longer than executor_config.timeout_seconds ({seconds} s)"
        raise RunFailed(ErrorType.DEADLINE_EXCEEDED, message, origin="caller") from error


async def _run(command: Command, run: ProgramRun, task: Task) -> ProgramEnded:
    try:
        program = run.started(task)
    except OSError as error:
        raise _not_started(command, str(error.strerror)) from error
    shown: JsonObject = {"arguments": list[JsonValue](run.argv[1:])}
    task.events.emit(ToolStarted(tool_call_id=_CALL_ID, tool_name=command.name, tool_input=shown))
    ended = await run.run_to_end(program)
    _tell_end(command, ended, task)
    return ended


def _tell_end(command: Command, ended: ProgramEnded, task: Task) -> None:
    """Say how the program ended, and nothing of what it printed: that is the answer, and may be an invalid one."""
    task.events.emit(
        ToolFinished(
            tool_call_id=_CALL_ID,
            tool_name=command.name,
            status="completed" if ended.return_code == 0 else "failed",
            tool_output={
                "return_code": ended.return_code,
                "stdout_bytes": ended.stdout.total_bytes,
                "stderr_bytes": ended.stderr.total_bytes,
            },
        )
    )
    if ended.why_not_started is not None:
        raise _not_started(command, ended.why_not_started)


def _not_started(command: Command, reason: str) -> RunFailed:
    message = f"the command {command.name!r} cannot be started: {reason}; a script begins with a line such as #!/bin/sh"
    return RunFailed(ErrorType.DEPENDENCY_MISSING, message, origin="environment")
