"""A short soak: see `tests.faults.fleet.soak`, which .ci/weekly runs for ten minutes."""

from pathlib import Path

import pytest

from tests.faults.fleet.soak import Fault, soak
from tests.postgres_server import require_server

pytestmark = pytest.mark.slow  # repetition: kills at random


def test_no_run_is_lost_or_doubled_when_a_worker_and_the_server_are_killed(tmp_path: Path) -> None:
    require_server()

    faults: list[tuple[float, Fault]] = [(4, "kill a worker"), (4, "kill the server")]
    figures = soak(tmp_path / "fleet", 2, 20, faults, samples=5, pause_milliseconds=50)

    assert figures["broken"] == {}
    assert (figures["killed_workers"], figures["killed_servers"]) == (1, 1)
    assert figures["outcomes"].keys() == {"completed", "attempt_lost"}
