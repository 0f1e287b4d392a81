"""The SDK's transport to a CLI that the caller starts and ends. It refuses what the SDK would die of unseen."""

import json
from collections.abc import AsyncIterator
from typing import Any, Final

from ao_executors.claude_code.claude_answer_tool import ClaudeAnswerTool
from ao_executors.claude_code.claude_process import ClaudeProcess
from ao_executors.claude_code.sdk import ProcessError, Transport
from ao_executors.core.foreign_json import JsonDocument, MessageLines, UnreadableMessage, as_object, readable, shown
from ao_executors.core.program import lines_of

NAME: Final = "the claude CLI"
_MAX_LINE_BYTES: Final = 64 * 1024 * 1024
_SINCE_LAST_RESULT: Final = "model_usage_since_last_result"
_EXIT_SECONDS: Final = 2.0
"""How long a CLI whose output has ended may take to exit."""


class ProcessTransport(Transport):
    """The SDK's transport to a process that the caller starts and ends."""

    def __init__(self, process: ClaudeProcess, answer_tool: ClaudeAnswerTool) -> None:
        self.process = process
        self.answer_tool = answer_tool
        """Gets the CLI's requests to it, which the SDK does not see."""
        self.is_asked = False
        """True while a turn is expected; the conversation sets it."""
        self.spoke_unasked = False
        """True once the CLI has begun a turn by itself, for example after the end of a background command."""
        self._has_answered = False
        self._sent: set[str | None] = set()
        """The ids of requests."""
        self._fault: UnreadableMessage | ProcessError | None = None
        """Why the CLI can no longer be read."""

    async def connect(self) -> None:
        """Do nothing: the process is running."""

    def is_ready(self) -> bool:
        """Return True: `write` detects a process that has ended."""
        return True

    async def write(self, data: str) -> None:
        """Write one message.

        Raises:
            ProcessError: The process has ended.
            UnreadableMessage: It cannot be read, so that no answer would come.
        """
        if self._fault is not None:
            raise self._fault
        self._sent.add(json.loads(data).get("request_id"))
        try:
            await self.process.program.write(data.encode())
        except ConnectionError as error:
            raise await self._ended() from error

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the messages of the process until its end. Skip other output, such as a debug line.

        Raises:
            ProcessError: The process ended before it was asked to, or exited with a code other than 0.
            UnreadableMessage: A message cannot be read.
        """
        lines, program = MessageLines(NAME), self.process.program
        try:
            async for line in lines_of(program.stdout, _MAX_LINE_BYTES):
                message = lines.read(line, bool)
                if message is not None:
                    with readable(NAME, "a message", message):
                        self._check(message)
                    if message["type"] == "result":
                        # The SDK passes on `modelUsage` only: totals of the session, which a resume continues.
                        message["modelUsage"] = message.get(_SINCE_LAST_RESULT)
                    answer = self.answer_tool.answers(message)
                    if answer is None:
                        yield message
                    else:
                        await self.write(f"{json.dumps(answer)}\n")
            ended = await self._ended()
            if ended.exit_code != 0 or not self._has_answered:
                raise ended
        except (ProcessError, UnreadableMessage) as error:
            self._fault, program.leave_seconds = error, 0.0
            raise

    def _check(self, message: JsonDocument) -> None:
        """Refuse what the SDK takes as its own, or dies of without a word to those that wait for an answer."""
        kind = message.get("type")
        inner = message.get("request" if kind == "control_request" else "response")
        if kind == "control_request" or kind == "control_response":  # noqa: PLR1714  # reads as the table
            number = (message if kind == "control_request" else as_object(inner)).get("request_id")
            if not isinstance(inner, dict) or not isinstance(number, str) or not isinstance(inner["subtype"], str):
                raise UnreadableMessage(NAME, kind, f"request_id or subtype is no text: {shown(message)}")
            if kind == "control_response" and number not in self._sent:
                raise UnreadableMessage(NAME, kind, f"its request_id {shown(number)} is that of no request")
            if kind == "control_response" and inner["subtype"] == "error":
                raise UnreadableMessage(NAME, "an error", f"the SDK expected an answer: {shown(inner.get('error'))}")
            self._has_answered |= kind == "control_response"
        elif not isinstance(kind, str) or kind in {"end", "error"}:
            raise UnreadableMessage(NAME, f"a message of type {shown(kind)}", shown(message))
        self.spoke_unasked |= not self.is_asked and _is_of_a_turn(message)

    async def end_input(self) -> None:
        """Close the stdin of the process."""
        self.process.program.close_stdin()

    async def close(self) -> None:
        """Close the stdin of the process. `started_claude` waits for its end."""
        self.process.program.close_stdin()

    async def _ended(self) -> ProcessError:
        code, stderr = await self.process.program.ended(_EXIT_SECONDS)
        return ProcessError("the claude CLI ended", exit_code=code, stderr=stderr.text or None)


def _is_of_a_turn(message: dict[str, Any]) -> bool:
    """Return whether a message belongs to a turn. Each turn begins with an `init`, before the model is asked."""
    return message.get("type") in {"assistant", "user", "result"} or message.get("subtype") == "init"
