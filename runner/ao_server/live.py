"""Who watches sessions, and what wakes them: one query for all watchers, not one for each."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from ao_runner.errors import RunnerError
from ao_server.store_access import StoreAccess

LOOK_SECONDS: Final = 0.2
AT_ONCE: Final = 500


class LiveSessions:
    """Wakes the watchers of a session when one of its runs has changed or has new events.

    `closing` is set when the server stops: open streams have to end then, because a server waits for them.
    """

    def __init__(self, access: StoreAccess) -> None:
        self._access = access
        self._watchers: dict[str, set[asyncio.Event]] = {}
        self._seen: dict[str, tuple[object, ...]] = {}
        self.closing = asyncio.Event()

    @asynccontextmanager
    async def watching(self, session_id: str) -> AsyncIterator[asyncio.Event]:
        """Yield an event that is set at each change of a session, and at the end of the server."""
        changed = asyncio.Event()
        self._watchers.setdefault(session_id, set()).add(changed)
        try:
            yield changed
        finally:
            self._watchers[session_id].discard(changed)
            if not self._watchers[session_id]:
                del self._watchers[session_id]
                self._seen.pop(session_id, None)

    def close(self) -> None:
        """End all streams."""
        self.closing.set()
        for changed in [one for watchers in self._watchers.values() for one in watchers]:
            changed.set()

    async def look(self) -> None:
        """Look for changes until the server stops."""
        while not self.closing.is_set():
            await asyncio.sleep(LOOK_SECONDS)
            watched = list(self._watchers)
            for start in range(0, len(watched), AT_ONCE):
                try:
                    await self._look_at(watched[start : start + AT_ONCE])
                except RunnerError:
                    break  # the next look may succeed; requests report the error

    async def _look_at(self, session_ids: list[str]) -> None:
        found = await self._access.read(lambda store: store.sessions.progress_of(session_ids))
        for session_id in session_ids:
            if found.get(session_id) != self._seen.get(session_id):
                self._seen[session_id] = found.get(session_id, ())
                for changed in self._watchers.get(session_id, ()):
                    changed.set()
