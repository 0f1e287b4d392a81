"""Perform one run with a command, and turn its output into the result.

The output of the command becomes the `result_data` of the run. An output contract, if any, validates it.
"""

import asyncio
import codecs
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from ao_executors.core import Emitter, RunFailed, Task
from ao_executors.core.program import ProgramEnded, ProgramRun, not_started
from ao_executors.procedural.command_line import Command, arguments_of, find_command, problems_with
from ao_protocol.contracts import (
    Accepted,
    AgentResponseFormat,
    Enforcement,
    OutputContract,
    Problem,
    problems_of_data,
    summary_of,
)
from ao_protocol.errors import ErrorType
from ao_protocol.events import OutputValidation, Result
from ao_protocol.framing import NotIJson, decode_object, encode_line
from ao_protocol.inputs import parameters_schema_for
from ao_protocol.json_path import ROOT
from ao_protocol.wire import JsonObject

STOP_REASON: Final = "completed"
_CALL_ID: Final = "command_1"
_ENVELOPE_BYTES: Final = 1024
_SHOWN_STDERR_CHARACTERS: Final = 2000


async def perform_command(task: Task, default_max_output_bytes: int) -> Result:
    """Run the command of a procedural agent and return its output as the result.

    Raises:
        RunFailed: The parameters cannot be arguments, the command is missing or took too long, or its output does not
            satisfy the output contract.
    """
    parameters = task.invocation.parameters
    if problems := problems_with(parameters):
        details = {"validation_errors": problems, "schema": parameters_schema_for(task.invocation)}
        message = f"the parameters cannot be arguments: {'; '.join(problems)}"
        extra = {"validation_errors": problems, "details": details}
        raise RunFailed(ErrorType.PARAMETERS_VALIDATION_FAILED, message, origin="caller", extra=extra)
    folder = Path(str(task.config.get("commands_dir", task.project_dir)))
    command = find_command(task.invocation.agent_blueprint, folder)
    seconds = task.config.get("timeout_seconds")
    argv = [str(command.program), *command.arguments, *arguments_of(parameters)]
    max_output_bytes = task.config.get("max_output_bytes", default_max_output_bytes)
    try:
        async with asyncio.timeout(seconds) as deadline:
            ended = await _run(command, ProgramRun(argv, max_output_bytes, env=task.config.get("env")), task)
    except TimeoutError as error:
        if not deadline.expired():
            raise
        message = f"{command.name} took longer than executor_config.timeout_seconds ({seconds} s)"
        raise RunFailed(ErrorType.DEADLINE_EXCEEDED, message, origin="caller") from error
    return _result_of(command.name, ended, task)


async def _run(command: Command, run: ProgramRun, task: Task) -> ProgramEnded:
    """Run a command as a tool call. Its events leave the output out: it is the answer and may be invalid (AOX-175)."""
    try:
        program = run.started(task)
    except OSError as error:
        raise _not_started(command, str(error.strerror)) from error
    shown: JsonObject = {"arguments": list[JsonValue](run.argv[1:])}
    task.events.start_tool(_CALL_ID, command.name, shown)
    ended = await run.run_to_end(program)
    printed = {"stdout_bytes": ended.stdout.total_bytes, "stderr_bytes": ended.stderr.total_bytes}
    status = "completed" if ended.return_code == 0 else "failed"
    task.events.finish_tool(_CALL_ID, status, tool_output={"return_code": ended.return_code, **printed})
    if ended.why_not_started is not None:
        raise _not_started(command, ended.why_not_started)
    return ended


def _not_started(command: Command, reason: str) -> RunFailed:
    return not_started(command.name, reason, "command", "a script begins with a line such as #!/bin/sh")


def _result_of(name: str, ended: ProgramEnded, task: Task) -> Result:
    """Return the result of a command that has ended.

    Raises:
        RunFailed: The output does not satisfy the output contract, or is too long to be validated.
    """
    try:
        data = _json_of(ended)
        is_result = data is not None or task.contract is not None  # without a contract null is no result (AOX-075)
    except NotIJson:
        is_result = False
    if not is_result:
        data = _text_form(ended, task.events.max_event_bytes - _ENVELOPE_BYTES)
    if task.contract is None:
        return Result(result_text=None, result_data=data, stop_reason=STOP_REASON)
    if ended.stdout.is_cut:
        message = (
            f"{name} printed {ended.stdout.total_bytes} bytes, of which {len(ended.stdout.kept)} are kept, so they "
            "cannot be validated against the output schema; raise executor_config.max_output_bytes"
        )
        raise RunFailed(ErrorType.LIMIT_EXCEEDED, message, origin="caller")
    return _judged(name, ended, data, task.contract, task.events)


def _json_of(ended: ProgramEnded) -> JsonValue:
    """Return the stdout of a command as JSON.

    It is parsed inside an object, because it must be valid inside an event.

    Raises:
        NotIJson: The command did not exit with 0, or its whole stdout is not one value of I-JSON.
    """
    if ended.return_code != 0 or ended.stdout.is_cut:
        raise NotIJson("the command did not end well, or printed too much")
    document = decode_object(b'{"result_data":' + ended.stdout.kept.removeprefix(codecs.BOM_UTF8) + b"}")
    if document.keys() != {"result_data"}:
        raise NotIJson("expected one value")
    return document["result_data"]


def _text_form(ended: ProgramEnded, max_bytes: int) -> JsonObject:
    """Return `{return_code, stdout, stderr}`, of at most `max_bytes` as JSON.

    If the output is too long, its end is kept, because programs report errors there. `truncated`, `stdout_bytes` and
    `stderr_bytes` then give its length.
    """
    stdout, stderr = (stream.kept.decode(errors="replace") for stream in (ended.stdout, ended.stderr))
    form: JsonObject = {"return_code": ended.return_code, "stdout": stdout, "stderr": stderr}
    marks: JsonObject = {
        "truncated": True,
        "stdout_bytes": ended.stdout.total_bytes,
        "stderr_bytes": ended.stderr.total_bytes,
    }
    if ended.stdout.is_cut or ended.stderr.is_cut:
        form |= marks
    share = max(len(stdout), len(stderr), 1)
    while len(encode_line(form)) > max_bytes and share:
        share //= 2
        form |= {"stdout": stdout[len(stdout) - share :] if share < len(stdout) else stdout, **marks}
        form |= {"stderr": stderr[len(stderr) - share :] if share < len(stderr) else stderr}
    return form


def _judged(name: str, ended: ProgramEnded, data: JsonValue, contract: OutputContract, events: Emitter) -> Result:
    """Validate the output against the contract, without a retry: the program would print the same again."""
    if isinstance(contract.format, AgentResponseFormat):
        if ended.return_code != 0:
            problems: Sequence[Problem] = [Problem(ROOT, f"the command exited with {ended.return_code}, expected 0")]
        else:
            printed = ended.stdout.kept.decode(errors="replace")
            outcome = Enforcement(replace(contract, max_retries=0)).judge(printed)
            data, problems = (outcome.value, []) if isinstance(outcome, Accepted) else (None, outcome.problems)
    else:
        problems = problems_of_data(data, contract.format)
    errors = [str(problem) for problem in problems]
    events.emit(OutputValidation(attempt=1, valid=not problems, errors=errors, retries_left=0))
    if problems:
        stderr = ended.stderr.kept.decode(errors="replace")[-_SHOWN_STDERR_CHARACTERS:]
        raise RunFailed(
            contract.error_type,
            f"what {name} printed does not fit the output contract; it exited with {ended.return_code}",
            origin="tool",
            extra={"validation_errors": errors, "details": {"return_code": ended.return_code, "stderr": stderr}},
        )
    summary = summary_of(contract, Accepted(data, retry_count=0, ambiguous=False))
    return Result(result_text=None, result_data=data, stop_reason=STOP_REASON, output=summary)
