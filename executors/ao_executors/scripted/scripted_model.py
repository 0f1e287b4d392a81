"""Perform one scripted run: read the script, find the session's position in it, and ask a model that plays it."""

import asyncio
import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any, Final, cast

from pydantic import JsonValue

from ao_executors.core import ALLOW_OR_DENY, Answer, InputRequest, MessageStream, RunFailed, Task, converse
from ao_executors.core.conversation import occupy
from ao_executors.core.executor import input_required, refused
from ao_executors.core.inputs import denial_of
from ao_executors.scripted.script_schema import SCRIPT_SCHEMA, SCRIPT_VARIABLE
from ao_protocol.contracts.checks import validate
from ao_protocol.errors import ErrorType
from ao_protocol.events import (
    Result,
    RetryError,
    RetryScheduled,
    SessionBound,
)
from ao_protocol.wire import JsonObject
from ao_protocol.written import decode_text, parse_json, parse_yaml

_SESSION: Final = re.compile(r"scripted_(?P<name>[0-9a-f]{16})_(?P<answers>[0-9]{1,9})")
_FOREVER_SECONDS: Final = 1_000_000


async def perform_script(task: Task, wire_fd: int) -> Result:
    """Perform a task by the script.

    The id of a scripted session contains the number of its answers so far. A resume in a new process continues after
    them, and nothing has to be stored.

    Raises:
        RunFailed: The script defines a failure, the script is missing or invalid, or the session is not known or busy.
    """
    script = _script_of(task)
    name, answers_before = os.urandom(8).hex(), 0
    if task.invocation.mode == "resume":
        given = task.invocation.executor_session_id or ""
        known = _SESSION.fullmatch(given)
        if known is None:
            message = f"unknown session {given!r}; pass the executor_session_id of the last session_bound event"
            raise RunFailed(ErrorType.SESSION_NOT_FOUND, message, origin="caller")
        name, answers_before = known["name"], int(known["answers"])
    with occupy("scripted", name):
        model = ScriptedModel(task, script, name, answers_before, wire_fd)
        model.bind()
        return await converse(task, model)


def _script_of(task: Task) -> JsonObject:
    inline, file = task.config.get("script"), task.config.get("script_file") or os.environ.get(SCRIPT_VARIABLE)
    if inline is None and file is None:
        raise _invalid(f'$: "script" or "script_file" is a required property, and {SCRIPT_VARIABLE} is not set')
    script = inline if inline is not None else _load(Path(str(file)))
    problems = validate(script, SCRIPT_SCHEMA)
    if problems:
        raise _invalid("; ".join(map(str, problems)))
    return cast("JsonObject", script)  # the schema guarantees it


def _load(path: Path) -> JsonValue:
    try:
        text = decode_text(path.read_bytes())
        # The schema checks it afterwards.
        return cast("JsonValue", parse_yaml(text) if path.suffix in {".yaml", ".yml"} else parse_json(text))
    except ImportError as error:
        message = f"{path} is YAML, and PyYAML is not installed; pip install 'ao-executor-protocol[cli]' or write JSON"
        raise RunFailed(ErrorType.DEPENDENCY_MISSING, message, origin="environment") from error
    except (OSError, RecursionError, ValueError) as error:
        raise _invalid(f"$.script_file: {path} cannot be read: {error}") from error


def _invalid(reason: str) -> RunFailed:
    pointer, _, message = reason.partition(": ")
    details = {"violations": [{"pointer": pointer, "message": message}]}
    return refused(ErrorType.INVALID_EXECUTOR_CONFIG, f"the script cannot be played: {reason}", details)


class ScriptedModel:
    """A model that plays the answers of a script, and emits the events of models and tools before each answer.

    Its conversation already has `answers_before` answers.
    """

    def __init__(self, task: Task, script: JsonObject, name: str, answers_before: int, wire_fd: int) -> None:
        self._events = task.events
        self._inputs = task.inputs
        self._script: Any = script  # checked by SCRIPT_SCHEMA
        self._name = name
        self._answers = answers_before
        self._calls = 0
        self._wire_fd = wire_fd

    def bind(self) -> None:
        """Emit `session_bound` with an id for a resume after the answers so far."""
        self._events.emit(SessionBound(executor_session_id=f"scripted_{self._name}_{self._answers}", model="script"))

    async def ask(self, text: str) -> Answer:
        """Play the next answer. `text` is ignored.

        Raises:
            RunFailed: The script defines a failure, or has no answer left.
        """
        step = self._next_step()
        if "noise" in step:
            from ao_executors.core.conformance import make_noise

            make_noise(step["noise"])
        await asyncio.sleep(step.get("delay_seconds", 0))
        if retry := step.get("retry"):
            error = RetryError(type=retry["type"], message=retry["message"])
            self._events.emit(RetryScheduled(error=error, attempt=1, delay_seconds=retry["delay_seconds"]))
            await asyncio.sleep(retry["delay_seconds"])
        for said in step.get("messages", ()):
            self._calls += 1
            MessageStream(self._events, f"msg_{self._answers}_{self._calls}").end(said)
        for tool in step.get("tools", ()):
            await self._play_tool(tool)
        if (figures := step.get("usage")) is not None:
            self._events.add_usage(figures)
        await self._commit_fault(step.get("fault"))
        if fail := step.get("fail"):
            delay = {name: fail[name] for name in ("retry_after_seconds",) if name in fail}
            origin, retryable = fail.get("origin", "provider"), fail.get("retryable")
            raise RunFailed(ErrorType(fail["type"]), fail["message"], origin=origin, retryable=retryable, extra=delay)
        self.bind()
        answer = json.dumps(step["json"], ensure_ascii=False) if "json" in step else step.get("text", "")
        return Answer(
            answer,
            message_id=f"msg_{self._answers}",
            stop_reason=step.get("stop_reason", "end_turn"),
            truncated=step.get("truncated", False),
        )

    def _next_step(self) -> dict[str, Any]:
        answers = self._script["answers"]
        place = self._answers % len(answers) if answers and self._script.get("repeat") else self._answers
        if place >= len(answers):
            message = f"the script has {len(answers)} answers, and answer {place + 1} was asked for; add one"
            raise RunFailed(ErrorType.INTERNAL_ERROR, message, origin="caller")
        self._answers += 1
        step: dict[str, Any] = answers[place]
        return step

    async def _play_tool(self, tool: dict[str, Any]) -> None:
        self._calls += 1
        call, name, given = f"call_{self._answers}_{self._calls}", tool["name"], tool.get("input")
        self._events.start_tool(call, name, given)
        denial = await self._ask(call, name, given) if tool.get("ask") else None
        if denial is not None:
            self._events.finish_tool(call, "denied", error=denial)
            return
        await asyncio.sleep(tool.get("seconds", 0))
        error = tool.get("error")
        status = "completed" if error is None else "failed"
        self._events.finish_tool(call, status, tool_output=tool.get("output"), error=error)

    async def _ask(self, call: str, name: str, given: object) -> str | None:
        """Ask whether a tool may be called; return why not, or None if it may.

        Raises:
            RunFailed: The run was parked. A resume plays the answer again from its beginning.
        """
        if not self._inputs.is_open:
            return "nobody can be asked, because the invocation has no control.input"
        request = InputRequest(
            call, "permission", f"May {name} be called?", ALLOW_OR_DENY, tool_call_id=call, tool_input=given
        )
        resolution = await self._inputs.ask(request)
        if self._inputs.parked:
            raise input_required(self._inputs.parked)
        return None if resolution.outcome == "accepted" else denial_of(resolution)

    async def _commit_fault(self, fault: str | None) -> None:
        match fault:
            case "raise":
                raise RuntimeError("the script says that this executor fails")
            case "hang":
                await asyncio.sleep(_FOREVER_SECONDS)
            case "block":
                time.sleep(_FOREVER_SECONDS)  # noqa: ASYNC251  # the fault is to block
            case "exit":
                os._exit(0)
            case "crash":
                os.kill(os.getpid(), signal.SIGABRT)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "garbage":
                os.write(self._wire_fd, b"Downloading model weights: 42%\n")
