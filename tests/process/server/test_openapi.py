"""The OpenAPI document against the server: generated requests, valid and invalid."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.server.conftest import Serve

EXCLUDED = "positive_data_acceptance"
"""What fits the document may be refused: parameters have to fit the schema of an agent, which is in no document."""

WAITING = "/stream$|/sse/|/worker/(claim|orders)$|^/runner/runs$"
"""Calls whose answer waits for something."""


@pytest.mark.slow  # every call, with many requests
@pytest.mark.parametrize("examples", ["1", "25"])
def test_no_generated_request_is_answered_otherwise_than_documented(
    serve: Serve, tmp_path: Path, examples: str
) -> None:
    server = serve("--no-worker")
    found = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"), "run", f"{server.url}/openapi.json", "--no-color",
            "--max-examples", examples, "--seed", "1", "--exclude-checks", EXCLUDED,
            "--exclude-path-regex", "/stream$|^/sse/",
        ],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-6000:]
