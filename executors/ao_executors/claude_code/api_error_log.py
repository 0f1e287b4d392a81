"""What the API said of an error. The CLI's messages do not tell it of every error, but its own log does."""

import asyncio
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ao_executors.claude_code.private_text import PrivateText

LOG_ENVIRONMENT: Final = {"CLAUDE_CODE_DEBUG_LOG_LEVEL": "error"}
"""Keeps all but errors out of the log."""

_LATE_SECONDS: Final = 0.5
"""How long the log may lag behind the message on stdout that reports the same error. Measured: up to 0.02 s."""
_LOOK_SECONDS: Final = 0.01
_MAX_CHARACTERS: Final = 1000
_ENTRY: Final = re.compile(
    r"\[ERROR\] API error \(attempt \d+/\d+\): \S+ (.*?)(?=\n\d{4}-\d\d-\d\dT\S+ \[|\Z)", re.DOTALL
)
_STATUS: Final = re.compile(r"\d{3} ")


class ApiErrorLog:
    """The CLI's log, in memory on Linux. It holds nothing but errors."""

    def __init__(self) -> None:
        self._log = PrivateText("api-errors", "")
        self._end = 0
        self._seen = 0

    @property
    def path(self) -> Path:
        """Where the CLI writes it."""
        return self._log.path

    def skip(self) -> None:
        """Pass over what stands in it so far."""
        self._end = self._log.size()
        self._seen = 0

    async def next_words(self) -> str | None:
        """Return what the API said with its next error since `skip`: one line, shortened.

        The CLI writes its log in the background, so the entry is waited for. Without it: None, never older words.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_LATE_SECONDS):
                while len(self._entries()) <= self._seen:  # noqa: ASYNC110  # another process writes it
                    await asyncio.sleep(_LOOK_SECONDS)
        entries = self._entries()
        is_new = len(entries) > self._seen
        self._seen = len(entries)
        return words_of(entries[-1]) if is_new else None

    def _entries(self) -> list[str]:
        return _ENTRY.findall(self._log.read(self._end))

    def forget(self) -> None:
        """Let it go."""
        self._log.forget()


def words_of(entry: str) -> str:
    """Return the message in the body of an error, as the APIs of Anthropic, AWS and Google write it; else all of it."""
    text = _STATUS.sub("", entry, count=1).strip()
    with suppress(ValueError):
        text = _message_in(json.loads(text)) or text
    return shortened(text)


def shortened(text: str) -> str:
    """Return a text as one line of 1,000 characters at most."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_CHARACTERS else f"{line[: _MAX_CHARACTERS - 1]}…"


def _message_in(body: Any) -> str | None:  # noqa: ANN401  # any JSON
    match body:
        case [first, *_]:
            return _message_in(first)
        case {"error": {"message": str(message)}} | {"error": str(message)} | {"message": str(message)}:
            return message
        case _:
            return None
