"""The recipe for Temporal: what it shows is in the file, and the file works."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.runner.cli.calling import SECONDS, Ao

pytest.importorskip("temporalio", reason="temporalio is not installed; the extra `dev` has it")

from tests.temporal_server import TemporalServer, require_program

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "examples" / "temporal" / "agents.py"


def test_what_the_page_shows_is_in_the_file() -> None:
    page = (ROOT / "docs" / "recipe-temporal.md").read_text()
    shown = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "def " in block]

    assert len(shown) == 1
    assert shown[0] in FILE.read_text()


@pytest.mark.slow  # tests/process/runner/test_temporal_server.py has the example's `serve`
def test_the_example_serves_and_asks(tmp_path: Path) -> None:
    require_program()
    ao = Ao(tmp_path)
    ao.write("agent.yaml", "name: agent\n")
    with TemporalServer(tmp_path) as server:
        variables = {**os.environ, **ao.environment(), "TEMPORAL_ADDRESS": server.address, "PROFILE": "echo"}
        with subprocess.Popen([sys.executable, str(FILE), "serve"], cwd=tmp_path, env=variables) as serving:
            try:
                asking = [sys.executable, str(FILE), "run", "Review PR 7"]
                # Not its exit code: temporalio 1.35 sometimes aborts at the very end of a process, as the page says.
                done = subprocess.run(
                    asking, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False
                )
                serving.terminate()
                serving.wait(SECONDS)
            finally:
                serving.kill()

    assert done.stdout == "Review PR 7\n", done.stderr
