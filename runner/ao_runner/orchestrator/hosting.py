"""The orchestrator server for the runs of a worker. The first run that needs it imports and starts it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Self

from ao_protocol.errors import ErrorType
from ao_runner.coordinators.port import Assignment
from ao_runner.errors import RunnerError
from ao_runner.runs.run_request import Served, refused

if TYPE_CHECKING:
    from ao_runner.orchestrator.serving import OrchestratorServer

NAME: Final = "orchestrator_mcp_url"
PLACEHOLDER: Final = f"${{runner.{NAME}}}"


class OrchestratorHosting:
    """The `Hosting` of the orchestrator server. A `with` block owns the server, once it is started.

    Args:
        coordinator: The value of `--coordinator`. Without an HTTP URL no server is started.
        environ: The variables, for the coordinator's token.
        is_kept: Returns whether a process waits for the next run of a session.
        tell: Receives a sentence for people.
    """

    def __init__(
        self,
        coordinator: str,
        environ: Mapping[str, str],
        is_kept: Callable[[str], bool],
        tell: Callable[[str], object],
    ) -> None:
        self._coordinator = coordinator
        self._environ = environ
        self._is_kept = is_kept
        self._tell = tell
        self._server: OrchestratorServer | None = None
        self._beginning = asyncio.Lock()
        self._leaving = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Prepare the tasks; nothing is imported."""
        self._group = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the server."""
        self._leaving.set()
        # Without the error of the block: a task group would wrap it.
        await self._group.__aexit__(None, None, None)

    @asynccontextmanager
    async def serving(self, assignment: Assignment, known: Mapping[str, str]) -> AsyncIterator[Served]:
        """Yield the address for the session of a run, if the blueprint needs one and no value sets it."""
        is_remote = self._coordinator.startswith(("http://", "https://"))
        if not is_remote or NAME in known or PLACEHOLDER not in json.dumps(assignment.session.blueprint):
            yield Served()
            return
        try:
            server = await self._begun()
        except RunnerError as error:
            raise refused(ErrorType.DEPENDENCY_MISSING, str(error)) from error
        run_id = assignment.run.run_id
        address, token = server.grant(run_id, assignment.session.session_id)
        try:
            yield Served({NAME: address}, {NAME: token})
        finally:
            server.revoke(run_id)

    async def _begun(self) -> "OrchestratorServer":
        from ao_runner.orchestrator.serving import OrchestratorServer

        async with self._beginning:
            if self._server is None:
                server = OrchestratorServer(self._coordinator, self._environ, self._is_kept)
                began: asyncio.Future[int] = asyncio.get_running_loop().create_future()
                self._group.create_task(self._serve(server, began))
                port = await asyncio.shield(began)
                self._tell(f"the orchestrator MCP server listens on 127.0.0.1:{port}")
                self._server = server
            return self._server

    async def _serve(self, server: "OrchestratorServer", began: asyncio.Future[int]) -> None:
        try:
            async with server.served() as port:
                began.set_result(port)
                await self._leaving.wait()
        except RunnerError as error:
            if began.done():
                raise
            began.set_exception(error)
