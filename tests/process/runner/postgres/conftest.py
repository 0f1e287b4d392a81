"""A database of its own for each test, and `ao` on a host."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ao_runner.store.opening import StorePlace
from tests.postgres_server import PostgresServer, require_server
from tests.process.runner.cli.calling import Ao
from tests.process.runner.postgres.acting import ao_at


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that the tests of a file stop and break."""
    require_server()
    with PostgresServer(max_connections="12") as started:
        yield started


@pytest.fixture
def place(postgres: PostgresServer, tmp_path: Path) -> StorePlace:
    return StorePlace(tmp_path, postgres.new_database())


@pytest.fixture
def ao(tmp_path: Path) -> Ao:
    return ao_at(tmp_path)
