"""Stores for the tests of whatever uses one: a file, and a database on a real server."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ao_runner.store.opening import StorePlace
from ao_runner.store.store import Store
from tests.postgres_server import PostgresServer, require_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server that tests share; each makes databases of its own."""
    require_server()
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> StorePlace:
    """Where a store is, with each engine."""
    if request.param == "sqlite":
        return StorePlace(tmp_path)
    return StorePlace(tmp_path, request.getfixturevalue("postgres").new_database())


@pytest.fixture
def store(place: StorePlace) -> Iterator[Store]:
    """An empty store, with each engine."""
    with place.open() as opened:
        yield opened


Fill = Callable[[], Store]
