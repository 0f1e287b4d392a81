"""A database of its own for each test, and `ao` on a host."""

from pathlib import Path

import pytest

from ao_runner.store.opening import StorePlace
from tests.postgres_server import PostgresServer
from tests.process.runner.cli.calling import Ao
from tests.process.runner.postgres.acting import ao_at


@pytest.fixture
def place(postgres: PostgresServer, tmp_path: Path) -> StorePlace:
    return StorePlace(tmp_path, postgres.new_database())


@pytest.fixture
def ao(tmp_path: Path) -> Ao:
    return ao_at(tmp_path)
