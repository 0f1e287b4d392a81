"""One run at a time in a session, also among processes (SPEC 4.3). Internal."""

import hashlib
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ao_executors.core.failures import RunFailed
from ao_protocol.errors import ErrorType


@contextmanager
def occupy(owner: str, session: str) -> Iterator[None]:
    """Hold a session of `owner`, an executor or a program, for the length of a run.

    The name is an abstract socket of Linux, which leaves no file and goes with its process. Elsewhere runs of one
    session are not kept apart.

    Raises:
        RunFailed: `session_busy`, where another run holds it.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as place:
        if sys.platform == "linux":
            try:
                place.bind(f"\0ao-{hashlib.sha256(f'{owner} {session}'.encode()).hexdigest()}")
            except OSError as error:
                message = f"another run is using the session {session}; retry when it has ended"
                raise RunFailed(ErrorType.SESSION_BUSY, message, origin="caller") from error
        yield
