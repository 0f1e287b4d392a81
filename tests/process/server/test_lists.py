"""Lists cost a fixed number of queries, and one damaged row does not empty them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from ao_runner.runs.lost_runs import fail_lost_runs
from ao_runner.store.opening import StorePlace
from ao_runner.store.records import Run, Session
from ao_runner.store.sqlite_store import SqliteStore
from ao_runner.store.store import Store
from ao_server.application import build_application
from ao_server.beside import WorkerBeside
from ao_server.gate import GatePolicy
from ao_server.receivers import ReceiverPolicy
from ao_server.store_access import StoreAccess
from ao_server.submission import ServerSettings

AT = "2026-01-01T00:00:00.000Z"


@dataclass(frozen=True)
class TracedPlace(StorePlace):
    """A place whose stores note the statements that they run."""

    statements: list[str] = field(default_factory=list)

    def open(self, busy_seconds: float | None = None) -> Store:
        """Open the store."""
        store = super().open(busy_seconds)
        assert isinstance(store, SqliteStore)
        store.connection.set_trace_callback(self.statements.append)
        return store


def fill(home: Path, count: int) -> None:
    """Store sessions, each with a run that has failed and one that is running."""
    with StorePlace(home).open() as store:
        for number in range(count):
            session_id = f"ses_{number}"
            session = Session(session_id, AT, "x", "/bin/x", "/project", {"name": "agent"})
            store.runs.begin(Run(f"run_{number}_1", session_id, "start", {}, AT), "nobody", session)
        fail_lost_runs(store)
        for number in range(count):
            store.runs.begin(Run(f"run_{number}_2", f"ses_{number}", "resume", {}, AT), "nobody")


@asynccontextmanager
async def asking(place: StorePlace) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of the application over a store. Nothing runs beside it."""
    access = StoreAccess(place, "server")
    settings = ServerSettings(place.home, {}, str(place.home), None)
    app, _ = build_application(
        access, settings, GatePolicy(None), ReceiverPolicy(allows_private=True), WorkerBeside((), {}, 10, print)
    )
    async with access, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://ao") as client:
        yield client


async def listed(place: TracedPlace, kind: str) -> tuple[list[dict[str, Any]], int]:
    """Return a list, and the number of statements that it took."""
    async with asking(place) as client:
        await client.get(f"/{kind}")  # which opens a connection
        place.statements.clear()
        answer = await client.get(f"/{kind}")
        return answer.raise_for_status().json()[kind], len(place.statements)


@pytest.mark.parametrize("kind", ["sessions", "runs"])
async def test_a_list_costs_as_many_queries_for_30_sessions_as_for_3(tmp_path: Path, kind: str) -> None:
    costs = set()
    for count in (3, 30):
        fill(tmp_path / str(count), count)
        found, cost = await listed(TracedPlace(tmp_path / str(count)), kind)
        assert len(found) == count * (2 if kind == "runs" else 1)
        assert {one["status"] for one in found} == ({"running", "failed"} if kind == "runs" else {"running"})
        costs.add(cost)
    assert len(costs) == 1


async def test_runs_are_listed_with_their_failures_also_those_of_a_damaged_session(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    with StorePlace(tmp_path).open() as store:
        store.write("UPDATE sessions SET blueprint = 'damaged' WHERE session_id = 'ses_0'")
    async with asking(StorePlace(tmp_path)) as client:
        runs = (await client.get("/runs", params={"status": "failed"})).json()["runs"]
        sessions = (await client.get("/sessions")).json()["sessions"]
    assert [(run["run_id"], run["project_dir"]) for run in runs] == [("run_1_1", "/project"), ("run_0_1", None)]
    assert all(": " in run["error"] for run in runs), runs
    assert [session["session_id"] for session in sessions] == ["ses_1"]
