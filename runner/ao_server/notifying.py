"""The command of `ao serve --notify`: it is told of each notice, as JSON on its stdin."""

import asyncio
import json
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from ao_protocol.events import InvalidEvent
from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError
from ao_runner.store.notices import Notice
from ao_runner.store.records import timestamp
from ao_runner.store.store import Store
from ao_server.joined_workers import tell
from ao_server.messages import message_about
from ao_server.store_access import StoreAccess

NOTIFY_SECONDS: Final = 30.0
AT_ONCE: Final = 4


@dataclass
class Notifier:
    """Runs a command for each notice since the start of the server, at most `AT_ONCE` at a time.

    A notice is claimed in the store before: of several servers, and after a crash, none tells it twice.
    """

    access: StoreAccess
    command: Sequence[str]
    environ: Mapping[str, str]
    seconds: float = NOTIFY_SECONDS

    async def run(self) -> None:
        """Tell of notices until it is cancelled."""
        if not self.command:
            return
        since = ""
        at_once = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            async for _ in self.access.rounds():
                with suppress(RunnerError):
                    since = since or timestamp(await self.access.read(lambda store: store.now()))
                    for notice in await self.access.read(partial(_untold, since=since)):
                        if await self.access.write(partial(_claim, notice=notice)):
                            tasks.create_task(self._tell_of(notice, at_once))

    async def _tell_of(self, notice: Notice, at_once: asyncio.Semaphore) -> None:
        try:
            async with at_once:
                message = await self.access.read(lambda store: message_about(store, notice))
                problem = None if message is None else await self.perform(message)
        except (RunnerError, InvalidEvent) as error:
            problem = str(error)
        if problem is not None:
            tell(f"warning: --notify was not told of {notice.event} {notice.notice_id}: {problem}")

    async def perform(self, message: JsonObject) -> str | None:
        """Run the command once, and return what was wrong. Its group does not outlive it."""
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                *self.command, env=self.environ, stdin=pipe, stdout=nothing, start_new_session=True
            )
        except OSError as error:
            return f"{self.command[0]} cannot be started: {error.strerror}"
        try:
            async with asyncio.timeout(self.seconds):
                await process.communicate(json.dumps(message).encode() + b"\n")
        except TimeoutError:
            return f"{self.command[0]} did not end within {self.seconds:g} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        return f"{self.command[0]} ended with exit code {process.returncode}" if process.returncode else None


def _untold(store: Store, since: str) -> list[Notice]:
    return store.notices.since(since)


def _claim(store: Store, notice: Notice) -> bool:
    return store.notices.claim(notice.notice_id)
