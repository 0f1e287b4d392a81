"""What the conformance tests of the port need of an implementation, and how the implementations give it.

Another one is added by a class like these and its name in `DRIVERS`.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol, Self

from ao_protocol.wire import JsonObject
from ao_runner.coordinators.http.http_coordinator import HttpCoordinator
from ao_runner.coordinators.http.leased import LeasedCoordinator
from ao_runner.coordinators.http.registration import RunnerIdentity
from ao_runner.coordinators.http.transport import Timing
from ao_runner.coordinators.pipe import RunDefaults, StdoutCoordinator
from ao_runner.coordinators.port import Assignment, Coordinator
from ao_runner.coordinators.stored_queue import StoreCoordinator
from ao_runner.runs.lost_runs import fail_lost_runs
from ao_runner.store.opening import LOCAL, StorePlace
from ao_runner.store.ownership import REMOTE, own_runs
from ao_runner.store.records import Run, Session
from ao_runner.store.worker_table import Offer
from tests.foreign_coordinator.server import ForeignCoordinator
from tests.process.server.conftest import Served

NOW: Final = "2026-01-01T00:00:00.000Z"
IDENTITY: Final = RunnerIdentity("host", "/project", "profile", "autonomous", "ao-echo-exec")
QUICK: Final = Timing(
    connect_seconds=5,
    answer_seconds=5,
    shortest_poll_seconds=0.01,
    idle_seconds=5,
    watch_seconds=0.01,
    first_pause_seconds=0.01,
    longest_pause_seconds=0.02,
    duplicate_pause_seconds=0.01,
    duplicate_seconds=0.05,
    dead_poll_seconds=0.1,
)
"""Bounds that only a test which fails reaches, and pauses that nobody notices."""


class Driver(AbstractAsyncContextManager["Driver", None], Protocol):
    """One implementation with whatever stands behind it. A `with` block owns that."""

    lacks: Mapping[str, str]
    """What it lacks of `leases`, `handing_on`, `give_back` and `answers`, with the reason, which is reported."""

    def open(self) -> Coordinator:
        """Return a worker's end of it, not entered yet."""

    def enqueue(self, run_id: str, session_id: str, prompt: str) -> None:
        """Add a run of the agent `greeter`."""

    def cancel(self, run_id: str) -> None:
        """Want a run to end."""

    def answer(self, run_id: str, request_id: str, answer: JsonObject) -> None:
        """Answer a request of a run, as a person elsewhere does."""

    def take_away(self, run_id: str) -> None:
        """Let the lease of a run end, so that somebody else may have it; where there are leases."""

    def events_of(self, run_id: str) -> list[dict[str, Any]]:
        """Return the events that are kept of a run, in their order and in whatever vocabulary."""

    def terminal_of(self, run_id: str) -> str | None:
        """Return how a run has ended: `completed`, `failed`, `cancelled`, or None."""


class HttpDriver:
    """The stand-in for the existing server."""

    lacks: Mapping[str, str] = {
        "leases": "the REST contract knows neither leases nor attempts",
        "give_back": "the REST contract hands a run out once; one that is given back fails",
        "answers": "the REST contract passes no answers of people on",
    }

    def __init__(self, folder: Path) -> None:
        self._server = ForeignCoordinator()

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.__aexit__()

    def open(self) -> Coordinator:
        return HttpCoordinator(self._server.url, IDENTITY, tell=lambda _: None, timing=QUICK)

    def enqueue(self, run_id: str, session_id: str, prompt: str) -> None:
        self._server.state.enqueue(run_id, session_id, parameters={"prompt": prompt})

    def cancel(self, run_id: str) -> None:
        self._server.state.stop(run_id)

    def answer(self, run_id: str, request_id: str, answer: JsonObject) -> None:
        raise NotImplementedError(self.lacks["answers"])

    def take_away(self, run_id: str) -> None:
        raise NotImplementedError(self.lacks["leases"])

    def events_of(self, run_id: str) -> list[dict[str, Any]]:
        return self._server.state.answers(self._server.state.runs[run_id]["session_id"])

    def terminal_of(self, run_id: str) -> str | None:
        ends = {"completed": "completed", "failed": "failed", "stopped": "cancelled"}
        return ends.get(self._server.state.runs[run_id]["status"])


class StdoutDriver:
    """Two pipes."""

    lacks: Mapping[str, str] = {
        "leases": "a pipe has one reader and one writer",
        "answers": "nobody else can answer over a pipe",
    }

    def __init__(self, folder: Path) -> None:
        self._stack = AsyncExitStack()
        self._written = b""

    async def __aenter__(self) -> Self:
        self.runs_from, self.runs_to = os.pipe()
        self.events_from, self.events_to = os.pipe()
        for descriptor in (self.runs_from, self.runs_to, self.events_from, self.events_to):
            self._stack.callback(os.close, descriptor)
        os.set_blocking(self.events_from, False)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def open(self) -> Coordinator:
        defaults = RunDefaults("echo", "/bin/ao-echo-exec", "/project")
        return StdoutCoordinator(defaults, lambda _: None, self.runs_from, self.events_to)

    def enqueue(self, run_id: str, session_id: str, prompt: str) -> None:
        run = {"run_id": run_id, "session_id": session_id, "parameters": {"prompt": prompt}}
        self._put({"blueprint": {"name": "greeter"}, **run})

    def cancel(self, run_id: str) -> None:
        self._put({"cancel": run_id})

    def answer(self, run_id: str, request_id: str, answer: JsonObject) -> None:
        raise NotImplementedError(self.lacks["answers"])

    def take_away(self, run_id: str) -> None:
        raise NotImplementedError(self.lacks["leases"])

    def events_of(self, run_id: str) -> list[dict[str, Any]]:
        with suppress(BlockingIOError):
            self._written += os.read(self.events_from, 65536)
        events = [json.loads(written) for written in self._written.split(b"\n")[:-1]]
        return [event for event in events if event["run_id"] == run_id]

    def terminal_of(self, run_id: str) -> str | None:
        for event in self.events_of(run_id):
            if event["event_type"] in {"result", "failure"}:
                return str(event.get("status", "completed"))
        return None

    def _put(self, document: dict[str, Any]) -> None:
        os.write(self.runs_to, json.dumps(document).encode() + b"\n")


class StoreDriver:
    """A store of its own, as `ao submit`, `ao cancel` and another worker use it."""

    lacks: Mapping[str, str] = {"handing_on": "a run that has begun may have done something, so it ends as lost"}
    _profile = "echo"

    def __init__(self, folder: Path, url: str = LOCAL) -> None:
        self._place = StorePlace(folder, url)
        self._stack = ExitStack()

    async def __aenter__(self) -> Self:
        self._store = self._stack.enter_context(self._place.open())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stack.close()

    def open(self) -> Coordinator:
        return StoreCoordinator(self._place, Offer(self._stack.enter_context(own_runs(self._place.home))))

    def enqueue(self, run_id: str, session_id: str, prompt: str) -> None:
        if not any(session.session_id == session_id for session in self._store.sessions.all()):
            self._store.sessions.add(Session(session_id, NOW, "echo", "echo", "/project", {"name": "greeter"}))
        self._store.queue.add(replace(Run(run_id, session_id, "start", {"prompt": prompt}, NOW), profile=self._profile))
        self._store.notify()

    def cancel(self, run_id: str) -> None:
        self._store.runs.request_stop(run_id)
        self._store.notify()

    def answer(self, run_id: str, request_id: str, answer: JsonObject) -> None:
        assert self._store.inputs.answer(run_id, request_id, answer, "a person")
        self._store.notify()

    def take_away(self, run_id: str) -> None:
        if self._place.is_local:
            self._store.write("UPDATE runs SET lease_until = 0 WHERE run_id = ?", (run_id,))
        else:
            self._store.write("UPDATE workers SET lease_until = clock_timestamp() - interval '1 second'")
        fail_lost_runs(self._store)

    def events_of(self, run_id: str) -> list[dict[str, Any]]:
        events = [
            event
            for session in self._store.sessions.all()
            for event in self._store.events.of_session(session.session_id)
        ]
        return [json.loads(event.line) for event in events if event.run_id == run_id]

    def terminal_of(self, run_id: str) -> str | None:
        (status,) = [state.run.status for state in self._store.runs.states() if state.run.run_id == run_id]
        return None if status in {"queued", "running"} else status


class ServeDriver(StoreDriver):
    """A real `ao serve` over a store that clients use directly here."""

    def __init__(self, server: Served) -> None:
        super().__init__(server.home, server.environ["AO_STORE"])
        self._server = server

    def open(self) -> Coordinator:
        self._opened += 1
        return LeasedCoordinator(self._server.url, Offer(f"{REMOTE}{self._opened}", host="elsewhere"), {})

    _opened = 0


class OlderServeDriver(ServeDriver):
    """The same server, asked as the existing one is."""

    lacks: Mapping[str, str] = HttpDriver.lacks
    _profile = IDENTITY.profile

    def open(self) -> Coordinator:
        return HttpCoordinator(self._server.url, IDENTITY, lambda _: None, {}, QUICK)

    def events_of(self, run_id: str) -> list[dict[str, Any]]:
        hidden = ("user", "run_started")
        return [one for one in super().events_of(run_id) if one.get("role", one["event_type"]) not in hidden]


DRIVERS: Final[dict[str, Callable[[Path], Driver]]] = {
    "store": StoreDriver,
    "http": HttpDriver,
    "stdout": StdoutDriver,
}


async def the_run(coordinator: Coordinator) -> Assignment:
    """Ask until there is a run."""
    while not (runs := await coordinator.claim(1)):
        pass
    return runs[0]
