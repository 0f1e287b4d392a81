"""The CLI's process as the transport of the SDK's client."""

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from ao_executors.claude_code.process import ClaudeProcess
from ao_executors.claude_code.sdk import ProcessError, Transport


class ProcessTransport(Transport):
    """Carries the SDK's messages to a process that somebody else started and will end."""

    def __init__(self, process: ClaudeProcess) -> None:
        self.is_asked = False
        """True while a question is open; whoever asks says so."""
        self.spoke_unasked = False
        """True once the CLI has begun a turn of its own, as it does for a command in the background that has ended."""
        self._process = process

    @property
    def is_running(self) -> bool:
        """False once the process has ended."""
        return self._process.is_running

    async def connect(self) -> None:
        """Do nothing: the process runs."""

    def is_ready(self) -> bool:
        """Return True: whether the process still reads, writing will tell."""
        return True

    async def write(self, data: str) -> None:
        """Write one message.

        Raises:
            ProcessError: the process has ended.
        """
        try:
            await self._process.write(data.encode())
        except ConnectionError as error:
            raise await self._ended() from error

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Yield its messages up to its end; other output, such as a debug line, is passed over.

        Raises:
            ProcessError: it ended with another code than 0.
        """
        async for line in self._process.lines():
            message = _message_on(line)
            if message is not None:
                self.spoke_unasked |= not self.is_asked and _is_of_a_turn(message)
                yield message
        ended = await self._ended()
        if ended.exit_code != 0:
            raise ended

    async def end_input(self) -> None:
        """Close its stdin."""
        self._process.close_stdin()

    async def close(self) -> None:
        """Close its stdin; its end is waited for by who started it."""
        self._process.close_stdin()

    async def _ended(self) -> ProcessError:
        code, stderr = await self._process.end()
        return ProcessError("the claude CLI ended", exit_code=code, stderr=stderr or None)


def _message_on(line: bytes) -> dict[str, Any] | None:
    if line.startswith(b"{"):
        with suppress(ValueError):  # node prints an object that is debugged as `{ a: 1 }`
            message: dict[str, Any] = json.loads(line)
            return message
    return None


def _is_of_a_turn(message: dict[str, Any]) -> bool:
    """Say whether a message is of a turn; each begins with an `init`, before the model is asked."""
    return message.get("type") in {"assistant", "user", "result"} or message.get("subtype") == "init"
