"""A fresh home for each test."""

from pathlib import Path

import pytest

from tests.faults.worker.working import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return an empty home, and beside it an empty folder for its runs."""
    return Home.below(tmp_path)
