"""A real PostgreSQL server for tests and benchmarks: a cluster in a folder of its own, on sockets of its own."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psycopg
import pytest

REQUIRED: Final = "AO_TEST_REQUIRES_POSTGRES"
"""Set by .ci/run: a missing server is an error then, and skips nothing."""

STILL_THERE: Final = "pre-existing shared memory block"


def find_program(name: str) -> Path | None:
    """Return a program of the server, also from the folder in which Debian hides those of each version."""
    found = shutil.which(name)
    places = [Path(found).resolve()] if found else sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return places[-1] if places else None


def require_server() -> None:
    """Skip the test where there is no server.

    Raises:
        RuntimeError: CI demands one.
    """
    if find_program("postgres") is None:
        if os.environ.get(REQUIRED):
            raise RuntimeError("there is no PostgreSQL server; .ci/toolchains installs it")
        pytest.skip("there is no PostgreSQL server on this machine; Debian has it as `postgresql`")


class PostgresServer:
    """A server whose data is gone at the end of the `with` block. It listens on a socket and on a port of 127.0.0.1.

    `settings` are those of postgresql.conf, and `starter` is a command that runs the server. Root may not run a server,
    so it runs as the user `postgres` then.
    """

    def __init__(self, starter: Sequence[str] = (), **settings: str) -> None:
        self._starter = starter
        self.settings = {"fsync": "off", "max_connections": "300", **settings}
        self._user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="ao-pg-"))
        shutil.chown(self._folder, self._user)
        self.data = self._folder / "data"
        self._make_data()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        command = [
            *self._starter,
            find_program("postgres"),
            "-D",
            self.data,
            "-k",
            self._folder,
            "-c",
            "listen_addresses=",
            *options,
        ]
        until = time.monotonic() + 60
        while True:
            if self._process is None:
                with (self._folder / "log").open("wb") as log:
                    self._process = subprocess.Popen(
                        list(map(str, command)), user=self._user_if_root, cwd="/", stdout=log, stderr=log
                    )
            with suppress(psycopg.OperationalError):
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
                return
            told = (self._folder / "log").read_text()
            has_exited = self._process.poll() is not None
            if has_exited and STILL_THERE in told and time.monotonic() < until:
                self._process = None  # processes of a server that was killed end shortly after it
            elif has_exited or time.monotonic() > until:
                raise RuntimeError(f"the server did not start: {told[-2000:]}")
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT as an operator does, SIGQUIT at once. SIGKILL is a crash of all its processes."""
        if self._process is None:
            return
        if how == signal.SIGKILL:
            with suppress(subprocess.CalledProcessError):
                subprocess.run(["pkill", "-KILL", "-P", str(self._process.pid)], check=True)  # noqa: S607
        self._process.send_signal(how)
        self._process.wait(60)
        self._process = None

    def copy_data(self) -> None:
        """Copy the data of the server to where `go_back` finds them; it is down meanwhile."""
        self.stop()
        subprocess.run(["cp", "-a", self.data, self._folder / "earlier"], check=True, timeout=60)  # noqa: S607
        self.start()

    def go_back(self) -> None:
        """Restart with the data of `copy_data`, as a failover to a replica that was behind does."""
        self.stop()
        shutil.rmtree(self.data)
        (self._folder / "earlier").rename(self.data)
        self.start()

    def admit(self, addresses: str) -> None:
        """Admit every role from some addresses, such as 10.0.0.0/24."""
        with (self.data / "pg_hba.conf").open("a") as file:
            file.write(f"host all all {addresses} trust\n")
        with psycopg.connect(self.url("postgres")) as connection:
            connection.execute("SELECT pg_reload_conf()")

    def new_database(self) -> str:
        """Create an empty database and return its URL."""
        name = f"db_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def url(self, database: str) -> str:
        """Return the URL of a database, over the socket."""
        return f"postgresql://ao@/{database}?host={self._folder}"

    @property
    def _user_if_root(self) -> str | None:
        return self._user if os.geteuid() == 0 else None

    def _make_data(self) -> None:
        self._call("initdb", "--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "-U", "ao", "-D", self.data)

    def _call(self, program: str, *arguments: object) -> None:
        server = find_program("postgres")
        assert server is not None
        command = [str(server.with_name(program)), *map(str, arguments)]  # not a wrapper that has the same name
        subprocess.run(command, user=self._user_if_root, cwd="/", check=True, capture_output=True, timeout=120)


class Standby(PostgresServer):
    """A server that receives all changes of another one, the primary, and only reads until it is promoted.

    Commits of a primary with `synchronous_standby_names="*"` wait for it, also before it is there.
    """

    def __init__(self, primary: PostgresServer, **settings: str) -> None:
        super().__init__(**settings)
        self._primary = primary

    def new_database(self) -> str:
        """Create an empty database on the primary and return a URL that names both servers."""
        return f"{self._primary.new_database()},{self._folder}&target_session_attrs=read-write"

    def promote(self) -> None:
        """Make it a primary, and wait until it is one."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")

    def _make_data(self) -> None:
        source = ("-U", "ao", "-h", self._primary.data.parent)
        self._call("pg_basebackup", "--no-sync", "--checkpoint=fast", "--write-recovery-conf", *source, "-D", self.data)
