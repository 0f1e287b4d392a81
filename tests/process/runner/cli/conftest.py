"""A fresh `ao` for each test."""

from pathlib import Path

import pytest

from tests.process.runner.cli.calling import Ao


@pytest.fixture
def ao(tmp_path: Path) -> Ao:
    """Return the command line in an empty folder that holds one small blueprint, agent.yaml."""
    ao = Ao(tmp_path)
    ao.write("agent.yaml", "name: agent\n")
    return ao
