"""Stores, and servers over them, for the tests of whatever uses one."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from ao_runner.runs.lost_runs import cancel_run
from ao_runner.store.opening import LOCAL, StorePlace
from ao_runner.store.records import OPEN_STATUSES
from ao_runner.store.store import Store
from tests.postgres_server import PostgresServer, require_server
from tests.process.server.conftest import Serve, Served, wait_for

POSTGRES: Final = "postgres"
"""In place of a store: a new database."""
EMPTIED: Final = (
    "webhooks", "deliveries", "inputs", "events", "runs", "sessions", "agents", "limits", "schemas", "answers",
)  # fmt: skip


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server that tests share; each makes databases of its own."""
    require_server()
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["sqlite", POSTGRES])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine that a store can have."""
    return str(request.param)


@pytest.fixture
def place(request: pytest.FixtureRequest, engine: str, tmp_path: Path) -> StorePlace:
    """Where a store is, with each engine."""
    if engine == "sqlite":
        return StorePlace(tmp_path)
    return StorePlace(tmp_path, request.getfixturevalue("postgres").new_database())


@pytest.fixture
def store(place: StorePlace) -> Iterator[Store]:
    """An empty store, with each engine."""
    with place.open() as opened:
        yield opened


@pytest.fixture
def shared_store(engine: str) -> str:
    """The store of a shared server, with each engine."""
    return LOCAL if engine == "sqlite" else POSTGRES


@pytest.fixture(scope="session")
def shared_servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Start each server once, by its arguments and its store: one of its own, since a worker takes what it finds."""
    servers: dict[tuple[str, ...], Served] = {}
    with ExitStack() as stack:

        def start(*arguments: str, store: str = LOCAL) -> Served:
            key = (store, *arguments)
            if key not in servers or servers[key].process.poll() is not None:
                home = tmp_path_factory.mktemp("shared") / "home"
                url = request.getfixturevalue("postgres").new_database() if store == POSTGRES else store
                servers[key] = stack.enter_context(Served(home, arguments, {"AO_STORE": url}))
            return servers[key]

        yield start


@pytest.fixture
def share(shared_servers: Serve) -> Iterator[Serve]:
    """Give servers that other tests use, too, with an empty store: a start takes longer than most tests.

    A test that stops its server, or that reads the record of actions, needs one of its own.
    """
    given: list[Served] = []

    def give(*arguments: str, store: str = LOCAL) -> Served:
        given.append(shared_servers(*arguments, store=store))
        return given[-1]

    yield give
    for server in given:
        empty(server)


def empty(server: Served) -> None:
    """Stop what runs on a server, and delete everything but workers and actions from its store."""
    server.client.headers.pop("authorization", None)
    with StorePlace(server.home, server.environ["AO_STORE"]).open() as store:
        for _ in range(2):  # the second request kills
            with store.transaction():
                for state in store.runs.states(*OPEN_STATUSES):
                    cancel_run(store, state.run)
            store.notify()
        if "--no-worker" not in server.arguments:
            wait_for(lambda: not store.runs.states("running"))
        with store.transaction():
            for table in EMPTIED:
                store.write(f"DELETE FROM {table}")  # noqa: S608  # own names
