"""One run at a time in a session: the CLI itself would let two write into the same history."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ao_executors.core.failures import RunFailed
from ao_protocol.errors import ErrorType


class SessionLock:
    """Held by a run from the moment when its session is known; the kernel lets go of it when the process ends."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def take(self, session_id: str) -> None:
        """Take the lock of a session; once it is held, further calls do nothing.

        Raises:
            RunFailed: `session_busy` where another run has it, `workspace_error` where it cannot be kept.
        """
        if self._descriptor is not None:
            return
        try:
            descriptor = os.open(_lock_file(session_id), os.O_RDWR | os.O_CREAT, 0o600)
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

    def release(self) -> None:
        """Let the next run have it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def session_lock(known_session: str | None) -> Iterator[SessionLock]:
    """Hold the lock of a session that is known already, or of one that gets known in the block.

    Raises:
        RunFailed: as `SessionLock.take`.
    """
    lock = SessionLock()
    if known_session is not None:
        lock.take(known_session)
    try:
        yield lock
    finally:
        lock.release()


def _lock_file(session_id: str) -> Path:
    """Name the file beside the sessions themselves; the id is hashed, since it comes from outside."""
    config = os.environ.get("CLAUDE_CONFIG_DIR")
    folder = (Path(config) if config else Path.home() / ".claude") / "ao-session-locks"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / hashlib.sha256(session_id.encode()).hexdigest()
