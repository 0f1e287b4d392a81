"""An address at which nobody may call: it counts who does."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Final, Self

POLL_SECONDS: Final = 0.2


class WatchedAddress:
    """A listener on the loopback interface for as long as a `with` block lasts; it answers nobody."""

    def __init__(self) -> None:
        self.callers = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(POLL_SECONDS)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._count, daemon=True)

    @property
    def url(self) -> str:
        """Where somebody might call."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join()
        self._listener.close()

    def _count(self) -> None:
        while not self._closing.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = self._listener.accept()
                self.callers += 1
                connection.close()
