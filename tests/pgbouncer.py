"""A real pgbouncer in front of the tests' PostgreSQL server, in transaction mode."""

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.postgres_server import REQUIRED, PostgresServer, find_program

PORT: Final = 6432
SETTINGS: Final = """
[databases]
* = host={server} user=ao
[pgbouncer]
listen_addr =
listen_port = {port}
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = 3
server_round_robin = 1
logfile = {folder}/log
"""
"""Few connections that take turns: what one transaction leaves behind in its connection, the next one does not see."""


def require_pooler() -> Path:
    """Return the program, or skip the test where there is none.

    Raises:
        RuntimeError: CI demands one.
    """
    found = find_program("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if found is None:
        if os.environ.get(REQUIRED):
            raise RuntimeError("there is no pgbouncer; .ci/toolchains installs it")
        pytest.skip("there is no pgbouncer on this machine; Debian has it as `pgbouncer`")
    return Path(found)


class Pooler:
    """A pgbouncer on a socket of its own, until the end of the `with` block. It refuses to run as root."""

    def __init__(self, server: PostgresServer) -> None:
        self._program = require_pooler()
        self._server = server

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="ao-pool-"))
        settings = self._folder / "pgbouncer.ini"
        server = self._server.url("postgres").partition("host=")[2]
        settings.write_text(SETTINGS.format(folder=self._folder, server=server, port=PORT))
        user = "postgres" if os.geteuid() == 0 else None
        if user is not None:
            shutil.chown(self._folder, user)
        self._process = subprocess.Popen([self._program, "-q", settings], user=user, cwd="/")
        until = time.monotonic() + 60
        while True:
            with suppress(psycopg.OperationalError):
                psycopg.connect(self.pooled(self._server.url("postgres")), connect_timeout=2).close()
                return self
            if time.monotonic() > until or self._process.poll() is not None:
                raise RuntimeError(f"pgbouncer did not start: {(self._folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(60)
        shutil.rmtree(self._folder, ignore_errors=True)

    def pooled(self, url: str) -> str:
        """Return the URL of the pooler for that of a database of the server."""
        return f"postgresql://ao@{urlsplit(url).path}?host={self._folder}&port={PORT}"
