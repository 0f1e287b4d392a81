"""The wish to stop a run: asked for from anywhere, heard by whoever performs it at that moment."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StopRequests:
    """Counts the wishes to stop one run. The first asks, the second kills."""

    def __init__(self) -> None:
        self.count = 0
        self.reason = "user"
        """Why it was wished first, as the `cancel` line says it (SPEC 4.4)."""
        self.is_fenced = False
        """Whether the run has to end because it is not this process's any more."""
        self._listener: Callable[[], object] | None = None

    def request(self, reason: str = "user") -> None:
        """Wish it, on the thread of the event loop."""
        if not self.count:
            self.reason = reason
        self.count += 1
        if self._listener is not None:
            self._listener()

    def fence(self) -> None:
        """End it without asking: somebody else may begin the same run soon."""
        self.is_fenced = True
        self.request()

    @contextmanager
    def told_to(self, listener: Callable[[], object]) -> Iterator[None]:
        """Have `listener` called for each request inside the `with` block, at once if there was one before."""
        self._listener = listener
        try:
            if self.count > 0:
                listener()
            yield
        finally:
            self._listener = None


@contextmanager
def on_signals(request: Callable[[], None]) -> Iterator[None]:
    """Call `request` for each Ctrl-C and SIGTERM, and for a hang-up. Inside the `with` block they do nothing else.

    A hang-up counts once, since a terminal that closes sends several, and not at all where it is ignored (nohup).
    Only on the main thread, and while its event loop runs.
    """
    loop = asyncio.get_running_loop()
    hang_ups = 0

    def hang_up() -> None:
        nonlocal hang_ups
        hang_ups += 1
        if hang_ups == 1:
            request()

    handlers = {signal.SIGINT: request, signal.SIGTERM: request}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handlers[signal.SIGHUP] = hang_up
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
