"""The retries that an agent writes to stderr only."""

import re
from typing import Final

from ao_executors.core import Emitter, RunFailed
from ao_executors.core.json_rpc import Peer
from ao_executors.vendors.provider_errors import RetryPolicy, delay_told, origin_of, type_of_error
from ao_protocol.errors import ErrorType
from ao_protocol.framing import LineSplitter
from ao_protocol.short_text import shorten

_MAX_LINE_BYTES: Final = 1024 * 1024
_SHOWN_CHARACTERS: Final = 500
_OWN_DELAY_SECONDS: Final = 2.0
_MAX_OWN_DELAY_SECONDS: Final = 30.0
"""The delay of OpenCode 1.18, which doubles (measured), if its provider names none. Its log does not tell it."""


class RetryLog:
    """The log of an agent: each error of the provider in it becomes `retry_scheduled`.

    Where a retry makes no sense or there were too many, the run ends; the agent alone would try for minutes.

    Args:
        told_error: The pattern of the agent's row.
        policy: The decision on each retry.
        events: The emitter of the run.
    """

    def __init__(self, told_error: str, policy: RetryPolicy, events: Emitter) -> None:
        self.tries = 0
        """How often the present request was tried again."""
        self.peer: Peer | None = None
        """The connection whose run ends; what is written before it is set is not looked at."""
        self._pattern = re.compile(told_error)
        self._events = events
        self._policy = policy
        self._lines = LineSplitter(_MAX_LINE_BYTES)

    def feed(self, chunk: bytes) -> None:
        """Read a piece of stderr."""
        for line in self._lines.feed(chunk):
            found = self._pattern.search(line.decode(errors="replace")) if isinstance(line, bytes) else None
            if found is None or self.peer is None:
                continue
            try:
                self._take(found["words"], is_answer=found["answered"] is not None)
            except RunFailed as failed:
                self.peer.fail(failed)

    def _take(self, words: str, *, is_answer: bool) -> None:
        """Take an error. An answer of the provider with words that nobody knows ends the turn, if it is no retry."""
        kind = type_of_error(words) or (None if is_answer else ErrorType.PROVIDER_UNAVAILABLE)
        if kind is None:
            return
        self.tries += 1
        delay = delay_told(words) or min(_OWN_DELAY_SECONDS * 2 ** (self.tries - 1), _MAX_OWN_DELAY_SECONDS)
        failed = RunFailed(kind, shorten(words, _SHOWN_CHARACTERS), origin=origin_of(kind))
        self._events.emit(self._policy.event_for(failed, self.tries, delay))
