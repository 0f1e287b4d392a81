"""Files for the CLI: its prompt and configuration, its log of API errors, the lock of a session.

Other users cannot read the first two. The CLI's messages do not contain the API's text of every error, but its log
does. The lock is needed because the CLI lets two runs write into the history of one session.
"""

import asyncio
import fcntl
import hashlib
import os
import re
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from ao_executors.core import RunFailed
from ao_executors.core.foreign_json import read_json
from ao_protocol.errors import ErrorType
from ao_protocol.framing import NotIJson
from ao_protocol.short_text import shorten_line

LOG_ENVIRONMENT: Final = {"CLAUDE_CODE_DEBUG_LOG_LEVEL": "error"}
"""The variable that limits the log to errors."""

_LATE_SECONDS: Final = 0.5
"""How long the log may lag behind the message on stdout that reports the same error. Measured: up to 0.02 s."""
_LOOK_SECONDS: Final = 0.01
_MAX_CHARACTERS: Final = 1000
_ENTRY: Final = re.compile(
    r"\[ERROR\] API error \(attempt \d+/\d+\): \S+ (.*?)(?=\n\d{4}-\d\d-\d\dT\S+ \[|\Z)", re.DOTALL
)
_STATUS: Final = re.compile(r"\d{3} ")


class PrivateText:
    """A text with a path. On Linux it exists in memory only, and ends with this process.

    On other systems it is a file that only its owner may read, and that a SIGKILL leaves behind.
    """

    def __init__(self, name: str, text: str) -> None:
        data = text.encode(errors="replace")
        if sys.platform == "linux":
            self._descriptor = os.memfd_create(name)
            self.path = Path(f"/proc/{os.getpid()}/fd/{self._descriptor}")
        else:
            self._descriptor, path = tempfile.mkstemp(prefix=f"ao-{name}-")
            self.path = Path(path)
        with os.fdopen(os.dup(self._descriptor), "wb") as file:
            file.write(data)
        self._is_there = True

    def size(self) -> int:
        """Return the length in bytes. The other process may append to the text."""
        return os.fstat(self._descriptor).st_size

    def read(self, start: int) -> str:
        """Return the text from byte `start` on."""
        return os.pread(self._descriptor, max(0, self.size() - start), start).decode(errors="replace")

    def forget(self) -> None:
        """Remove the text. A second call does nothing."""
        if self._is_there:
            self._is_there = False
            os.close(self._descriptor)
            if sys.platform != "linux":
                self.path.unlink(missing_ok=True)


class ApiErrorLog(PrivateText):
    """The CLI's log, in memory on Linux. It contains only errors."""

    def __init__(self) -> None:
        super().__init__("api-errors", "")
        self._end = 0
        self._seen = 0

    def skip(self) -> None:
        """Skip the entries so far."""
        self._end = self.size()
        self._seen = 0

    async def next_words(self) -> str | None:
        """Return the API's message of the latest error since the last call or `skip`, as one short line.

        The CLI writes its log in the background, so this waits for the entry. Return None if none comes in time.
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
        return _ENTRY.findall(self.read(self._end))


def words_of(entry: str) -> str:
    """Return the message in the error body of the APIs of Anthropic, AWS and Google; for others, the whole body."""
    text = _STATUS.sub("", entry, count=1).strip()
    with suppress(NotIJson):
        text = _message_in(read_json(text)) or text
    return shortened(text)


def shortened(text: str) -> str:
    """Return the text as one line of at most 1,000 characters."""
    return shorten_line(text, _MAX_CHARACTERS)


def _message_in(body: Any) -> str | None:  # noqa: ANN401  # any JSON
    match body:
        case [first, *_]:
            return _message_in(first)
        case {"error": {"message": str(message)}} | {"error": str(message)} | {"message": str(message)}:
            return message
        case _:
            return None


class SessionLock:
    """The lock of a session, from the time its id is known. The kernel releases it when the process ends."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def take(self, session_id: str) -> None:
        """Take the lock of a session. Once it is held, further calls do nothing.

        The lock file is in the folder of the CLI. Its name is the hash of the id, because the id is untrusted.

        Raises:
            RunFailed: Another run holds the lock (`session_busy`), or the folder is not writable (`workspace_error`).
        """
        if self._descriptor is not None:
            return
        config = os.environ.get("CLAUDE_CONFIG_DIR")
        folder = (Path(config) if config else Path.home() / ".claude") / "ao-session-locks"
        file = folder / hashlib.sha256(session_id.encode()).hexdigest()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            message = f"the CLI's folder is not writable ({error}); set CLAUDE_CONFIG_DIR to a writable folder"
            raise RunFailed(ErrorType.WORKSPACE_ERROR, message, origin="environment") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            message = "another run is using this session; retry when it has ended"
            raise RunFailed(ErrorType.SESSION_BUSY, message, origin="caller") from error
        self._descriptor = descriptor
