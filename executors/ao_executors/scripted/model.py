"""A model that says what its script says, and does what models and their tools do on the way to an answer."""

import asyncio
import json
import os
import signal
import time
from typing import Any, Final

from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Answer
from ao_executors.core.failures import RunFailed
from ao_executors.core.noise import make_noise
from ao_protocol.errors import ErrorType
from ao_protocol.events import (
    Message,
    RetryError,
    RetryScheduled,
    SessionBound,
    TextBlock,
    ToolFinished,
    ToolStarted,
    Usage,
    UsageFigures,
)
from ao_protocol.wire import JsonObject

_FOREVER_SECONDS: Final = 1_000_000


class ScriptedModel:
    """A model in the middle of a scripted conversation, after `answers_before` answers."""

    def __init__(self, events: Emitter, script: JsonObject, name: str, answers_before: int, wire_fd: int) -> None:
        self.usage: UsageFigures | None = None
        self._events = events
        self._script: Any = script  # checked by SCRIPT_SCHEMA
        self._name = name
        self._answers = answers_before
        self._calls = 0
        self._wire_fd = wire_fd

    def bind(self) -> None:
        """Say how to go on behind the answers given so far."""
        self._events.emit(SessionBound(executor_session_id=f"scripted_{self._name}_{self._answers}", model="script"))

    async def ask(self, text: str) -> Answer:
        """Play the next answer, whatever `text` says.

        Raises:
            RunFailed: the script says so, or has no answer left.
        """
        step = self._next_step()
        if "noise" in step:
            make_noise(step["noise"])
        await asyncio.sleep(step.get("delay_seconds", 0))
        await self._play_retry(step.get("retry"))
        for said in step.get("messages", ()):
            self._say(said)
        for tool in step.get("tools", ()):
            await self._play_tool(tool)
        self._count(step.get("usage"))
        await self._commit_fault(step.get("fault"))
        if "fail" in step:
            raise _failure(step["fail"])
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

    async def _play_retry(self, retry: dict[str, Any] | None) -> None:
        if retry is not None:
            error = RetryError(type=retry["type"], message=retry["message"])
            self._events.emit(RetryScheduled(error=error, attempt=1, delay_seconds=retry["delay_seconds"]))
            await asyncio.sleep(retry["delay_seconds"])

    def _say(self, text: str) -> None:
        self._calls += 1
        message_id = f"msg_{self._answers}_{self._calls}"
        self._events.emit(Message(message_id=message_id, role="assistant", content=[TextBlock(text=text)]))

    async def _play_tool(self, tool: dict[str, Any]) -> None:
        self._calls += 1
        call, name, given = f"call_{self._answers}_{self._calls}", tool["name"], tool.get("input")
        self._events.emit(ToolStarted(tool_call_id=call, tool_name=name, tool_input=given))
        await asyncio.sleep(tool.get("seconds", 0))
        error = tool.get("error")
        self._events.emit(
            ToolFinished(
                tool_call_id=call,
                tool_name=name,
                status="completed" if error is None else "failed",
                tool_input=given,
                tool_output=tool.get("output"),
                error=error,
            )
        )

    def _count(self, figures: dict[str, Any] | None) -> None:
        if figures is not None:
            before = self.usage.model_dump(exclude_none=True) if self.usage else {}
            totals = {name: before.get(name, 0) + figures.get(name, 0) for name in before | figures}
            self.usage = UsageFigures.model_validate(totals)
            self._events.emit(Usage.model_validate(totals))

    async def _commit_fault(self, fault: str | None) -> None:
        match fault:
            case "raise":
                raise RuntimeError("the script says that this executor fails")
            case "hang":
                await asyncio.sleep(_FOREVER_SECONDS)
            case "block":
                time.sleep(_FOREVER_SECONDS)  # noqa: ASYNC251  # that it blocks is the fault
            case "exit":
                os._exit(0)
            case "crash":
                os.kill(os.getpid(), signal.SIGABRT)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "garbage":
                os.write(self._wire_fd, b"Downloading model weights: 42%\n")


def _failure(fail: dict[str, Any]) -> RunFailed:
    error_type = ErrorType(fail["type"])
    delay = fail.get("retry_after_seconds")
    return RunFailed(
        error_type,
        fail["message"],
        origin=fail.get("origin", "provider"),
        retryable=fail.get("retryable"),
        extra=None if delay is None else {"retry_after_seconds": delay},
    )
