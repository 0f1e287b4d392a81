"""A real CLI in a home of its own, with a simulated model, for each test."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import StartModel
from tests.real_cli.codex.codex import Codex

StartCodex = Callable[..., Codex]
REQUIRED = "AO_TEST_REQUIRES_CODEX"


@pytest.fixture
def start_codex(start_model: StartModel, tmp_path: Path) -> StartCodex:
    """Make a CLI whose model answers in this order: `start_codex({"text": "Hello."}, …)`."""
    if find_spec("codex_cli_bin") is None:
        if os.environ.get(REQUIRED):
            pytest.fail(f"{REQUIRED} is set, and the wheel openai-codex-cli-bin is not installed")
        pytest.skip("the wheel openai-codex-cli-bin is not installed; pip install 'ao-executor-protocol[codex]'")

    def start(*answers: dict[str, Any], satisfied: bool = True, env: dict[str, str] | None = None) -> Codex:
        return Codex(start_model(*answers, satisfied=satisfied), tmp_path, env)

    return start
