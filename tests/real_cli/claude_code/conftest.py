"""A real CLI in a home of its own, with a simulated model, for each test."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import StartModel
from tests.real_cli.claude_code.claude import Claude

StartClaude = Callable[..., Claude]


@pytest.fixture
def start_claude(start_model: StartModel, tmp_path: Path) -> StartClaude:
    """Make a CLI whose model answers in this order: `start_claude({"text": "Hello."}, …)`."""

    def start(*answers: dict[str, Any], satisfied: bool = True, env: dict[str, str] | None = None) -> Claude:
        return Claude(start_model(*answers, satisfied=satisfied), tmp_path, env)

    return start
