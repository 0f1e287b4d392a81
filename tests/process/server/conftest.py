"""A real `ao serve` on a port of its own, with either engine."""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx
import pytest

from tests.process.executors.driver import installed
from tests.process.fork_server import start_program
from tests.process.server.described_answers import DescribedAnswers

BOUND_SECONDS: Final = 60.0
ROOT: Final = Path(__file__).parents[3]
EXAMPLES: Final = ROOT / "docs/examples"
DESCRIBED: Final = DescribedAnswers()


@dataclass
class Served:
    """A server in a process. A `with` block owns it; leaving it stops the server by SIGTERM."""

    home: Path
    arguments: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)
    port: int = 0
    folder: Path = EXAMPLES / "echo"
    descriptors: int = 0
    """The limit of open files; 0 leaves it as it is."""

    def __enter__(self) -> Self:
        self._log = (self.home.parent / f"{self.home.name}-serve.log").open("ab")
        self._begins_at = self._log.tell()
        argv = [installed("ao"), "serve", "--port", str(self.port), *self.arguments]
        if self.descriptors:
            argv = ["/bin/sh", "-c", f'ulimit -n {self.descriptors}; exec "$@"', "sh", *argv]
        # Unbuffered, as in many containers.
        environ = {"AO_HOME": str(self.home), "AO_STORE": "local", "PYTHONUNBUFFERED": "1", **self.environ}
        self.process = start_program(argv, cwd=self.folder, env={**os.environ, **environ}, stderr=self._log)
        try:
            self.url = wait_for(self._address)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        hooks = {"response": [DESCRIBED.check]}
        self.client = httpx.Client(base_url=self.url, timeout=BOUND_SECONDS, trust_env=False, event_hooks=hooks)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if (client := getattr(self, "client", None)) is not None:
            client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(BOUND_SECONDS)
        self._log.close()

    @property
    def log(self) -> str:
        """What the server and its worker have said since this start."""
        return Path(self._log.name).read_bytes()[self._begins_at :].decode(errors="replace")

    def _address(self) -> str | None:
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}: {self.log}")
        found = re.search(r"serving \S+ at (\S+)", self.log)
        if found is None:
            return None
        self.port = int(found[1].rpartition(":")[2])
        return found[1]

    def add_agent(self, document: dict[str, Any]) -> None:
        """Create an agent."""
        answer = self.client.post("/agents", json=document)
        assert answer.status_code == 201, answer.text

    def start(self, agent_name: str, parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Queue a run of an agent and return its ids."""
        body = {"type": "start_session", "agent_name": agent_name, "parameters": parameters, **more}
        answer = self.client.post("/runs", json=body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def run(self, run_id: str) -> dict[str, Any]:
        """Return a run."""
        return dict(self.client.get(f"/runs/{run_id}").raise_for_status().json())

    def ended(self, run_id: str) -> dict[str, Any]:
        """Wait for a run to end, and return it."""

        def look() -> dict[str, Any] | None:
            run = self.run(run_id)
            return run if run["completed_at"] else None

        return dict(wait_for(look))


def wait_for(look: Callable[[], Any]) -> Any:
    """Return what a look finds, as soon as it finds something."""
    until = time.monotonic() + BOUND_SECONDS
    while not (found := look()):
        assert time.monotonic() < until, "nothing was found within a minute"
        time.sleep(0.02)
    return found


Serve = Callable[..., Served]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine that a store can have; a few tests of servers ask for both in each run."""
    return str(request.param)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start servers; `store` is the URL of a database, and arguments are those of `ao serve`."""
    with ExitStack() as stack:

        def start(*arguments: str, home: Path = tmp_path / "home", store: str = "local", port: int = 0) -> Served:
            return stack.enter_context(Served(home, arguments, {"AO_STORE": store}, port))

        yield start


@pytest.fixture
def served(share: Serve) -> Served:
    """A shared server with a worker, and the example agent `echo`, which asks no model."""
    server = share()
    server.add_agent(json.loads((EXAMPLES / "echo/blueprint.json").read_text()))
    return server
