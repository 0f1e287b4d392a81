"""What a command's end means: the `result_data` of the run, judged by the output contract where there is one."""

import codecs
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from ao_executors.core.emitter import Emitter
from ao_executors.core.failures import RunFailed
from ao_executors.core.run_program import Ended
from ao_executors.core.task import Task
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
from ao_protocol.json_path import ROOT
from ao_protocol.wire import JsonObject

STOP_REASON: Final = "completed"
_ENVELOPE_BYTES: Final = 1024
_SHOWN_STDERR_CHARACTERS: Final = 2000


class NotJson(ValueError):
    """What a command printed is no JSON, or the command did not end well."""


def result_of(name: str, ended: Ended, task: Task) -> Result:
    """Return the result of a command that has ended.

    Raises:
        RunFailed: the output contract is not kept, or more was printed than can be judged.
    """
    data = _data_of(ended, task.events.max_event_bytes - _ENVELOPE_BYTES, allows_null=task.contract is not None)
    if task.contract is None:
        return Result(result_text=None, result_data=data, stop_reason=STOP_REASON)
    if ended.stdout.is_cut:
        message = (
            f"{name} printed {ended.stdout.total_bytes} bytes, of which {len(ended.stdout.kept)} are kept, so they "
            "cannot be validated against the output schema; raise executor_config.max_output_bytes"
        )
        raise RunFailed(ErrorType.LIMIT_EXCEEDED, message, origin="caller")
    return _judged(name, ended, data, task.contract, task.events)


def json_of(ended: Ended) -> JsonValue:
    """Return what a command printed, where it ended with 0 and that is JSON from its first byte to its last.

    It must be readable inside an event, so an event is what it is tried in.

    Raises:
        NotJson: otherwise.
    """
    if ended.return_code != 0 or ended.stdout.is_cut:
        raise NotJson
    text = ended.stdout.kept.removeprefix(codecs.BOM_UTF8)
    try:
        document = decode_object(b'{"result_data":' + text + b"}")
    except NotIJson as error:
        raise NotJson from error
    if document.keys() != {"result_data"}:
        raise NotJson
    return document["result_data"]


def text_form(ended: Ended, max_bytes: int) -> JsonObject:
    """Return `{return_code, stdout, stderr}`, of at most `max_bytes` as JSON.

    Of what is too long the end is kept, where programs say what went wrong, and marks say how much there was.
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


def _data_of(ended: Ended, max_text_bytes: int, *, allows_null: bool) -> JsonValue:
    """Return the JSON or the text form. Null is no result by itself where no contract asks for it (AOX-075)."""
    with suppress(NotJson):
        data = json_of(ended)
        if data is not None or allows_null:
            return data
    return text_form(ended, max_text_bytes)


def _judged(name: str, ended: Ended, data: JsonValue, contract: OutputContract, events: Emitter) -> Result:
    """Hold what was printed against the contract, once: a program asked again would say the same."""
    if isinstance(contract.format, AgentResponseFormat):
        data, problems = _response_of(ended, contract)
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


def _response_of(ended: Ended, contract: OutputContract) -> tuple[JsonValue, Sequence[Problem]]:
    if ended.return_code != 0:
        return None, [Problem(ROOT, f"the command exited with {ended.return_code}, expected 0")]
    printed = ended.stdout.kept.decode(errors="replace")
    outcome = Enforcement(replace(contract, max_retries=0)).judge(printed)
    return (outcome.value, []) if isinstance(outcome, Accepted) else (None, outcome.problems)
