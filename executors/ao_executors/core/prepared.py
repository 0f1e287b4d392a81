"""Connects before the invocation comes, as a `prepare` line asks for it (SPEC 4.5)."""

import asyncio
from typing import Final

from pydantic import ValidationError

from ao_executors.core.cancellation import Cancellation
from ao_executors.core.connections import Connections
from ao_executors.core.control import await_input
from ao_executors.core.descendants import adopt_orphans
from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Executor
from ao_executors.core.failures import RunFailed
from ao_executors.core.stdio import Stdio
from ao_executors.core.task import Setting, Task
from ao_executors.core.task_from_invocation import prepare_setting
from ao_executors.core.warm_up import warm_up
from ao_protocol.documents import Invocation, Prepare
from ao_protocol.wire import JsonObject


class Ahead:
    """What is connected, and the event loop that it lives in.

    A `prepare` line that is wrong, or names an invocation that would be refused, connects nothing: what is wrong will
    be said when it comes.
    """

    def __init__(self, executor: Executor, document: JsonObject, stdio: Stdio, cancellation: Cancellation) -> None:
        self.loop: Final = asyncio.new_event_loop()
        self._setting = _setting(executor, document)
        self._executor = executor
        self._stdio = stdio
        self._cancellation = cancellation
        self._connections = Connections(executor.connect)
        cancellation.listen_to_signals()
        adopt_orphans()

    def read_invocation_line(self) -> bytes:
        """Wait for the invocation, while what was begun goes on.

        Raises:
            LineTooLong: it is longer than an invocation may be.
            EOFError: stdin ended, or a signal asked for the end; what was connected has been closed.
        """
        return self.loop.run_until_complete(self._await_line())

    async def connections_for(self, task: Task) -> Connections:
        """Return what is connected, closed again where it was made for another invocation than the task's."""
        if self._setting is None or _in_general(self._setting.invocation) != _in_general(task.invocation):
            await self._connections.close()
        return self._connections

    async def _await_line(self) -> bytes:
        if self._setting is not None:
            self._connections.open(self._setting)
            await asyncio.sleep(0)  # what it starts boots while this process imports
        warm_up(self._executor, self._stdio)
        try:
            while True:
                await await_input(self._stdio, self._cancellation)
                line = self._stdio.take_invocation_line()
                if line is not None:
                    return line
        except EOFError:
            await self._connections.close()
            raise


def _setting(executor: Executor, document: JsonObject) -> Setting | None:
    nobody = Emitter(lambda _: None, run_id=None, session_id=None)
    try:
        setting = prepare_setting(executor, Prepare.model_validate(document).invocation, nobody)
    except (ValidationError, RunFailed):
        return None
    # What older versions do not say now, their sessions depend on.
    return None if setting.invocation.schema_version.startswith("2.") else setting


def _in_general(invocation: Invocation) -> Invocation:
    """Leave out of an invocation what decides nothing of a connection; of the metadata, all but the trace."""
    trace = {name: value for name, value in invocation.metadata.items() if name == "traceparent"}
    of_the_run = {"run_id": None, "session_id": None, "parameters": {}, "prompt": None, "metadata": trace}
    return invocation.model_copy(update=of_the_run)
