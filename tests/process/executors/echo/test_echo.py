"""`ao-echo-exec`, the smallest valid executor."""

import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.process.executors.driver import WAIT_SECONDS, bare_environment, installed, invocation, line_of, run

ECHO = [installed("ao-echo-exec")]
SLOW_TO_IMPORT = {"pydantic", "pydantic_core", "jsonschema", "argparse", "importlib.metadata", "yaml"}
NOT_NEEDED = {"events", "contracts", "documents", "inputs", "wire"}
FROM_A_RUNNER = {
    "prompt": "Hi",
    "agent_name": "agent",
    "agent_blueprint": {"name": "agent", "system_prompt": "Be brief."},
    "project_dir": "/",
    "executor_config": {},
    "limits": {"max_event_bytes": 16777216, "heartbeat_interval_seconds": 10.0, "cancel_grace_seconds": 10.0},
    "control": {"stdin": "open"},
    "metadata": {},
}


@pytest.mark.requirement("AOX-075", "AOX-144")
def test_it_answers_with_the_prompt() -> None:
    ended = run(ECHO, invocation(parameters={"prompt": "Grüße"}))

    assert ended.types == ["run_started", "message", "result"]
    assert ended.terminal["result_text"] == "Grüße"
    assert ended.terminal["result_data"] is None
    assert ended.terminal["stop_reason"] == "end_turn"
    assert ended.exit_code == 0


@pytest.mark.parametrize("fields", [{}, FROM_A_RUNNER], ids=["by hand", "from a runner"])
def test_a_plain_run_imports_no_models_and_no_schemas(fields: dict[str, object], tmp_path: Path) -> None:
    line = tmp_path / "invocation.json"
    line.write_bytes(line_of(invocation(**fields)))
    environ = {**bare_environment(), "PYTHONPROFILEIMPORTTIME": "1"}
    # From a file, so that it is there from the beginning: an executor that waits for it imports more meanwhile.
    with line.open("rb") as stdin:
        ended = subprocess.run(ECHO, stdin=stdin, capture_output=True, env=environ, timeout=WAIT_SECONDS, check=True)

    imported = {said.rpartition("|")[2].strip() for said in ended.stderr.decode().splitlines()}
    assert json.loads(ended.stdout.splitlines()[-1])["event_type"] == "result"
    assert "ao_executors.core.runs" in imported
    assert imported & SLOW_TO_IMPORT == set()
    assert imported & {f"ao_protocol.{name}" for name in NOT_NEEDED} == set()
    assert imported & {"ao_executors.core.conformance", "ao_executors.core.task_from_invocation"} == set()


def test_executors_import_no_event_loop_before_they_have_begun() -> None:
    scripts = {point.value.partition(":")[0] for point in entry_points(group="console_scripts")}
    for name in sorted(module for module in scripts if module.startswith("ao_executors.") and "http" not in module):
        script = f"import {name}, sys; print({{'asyncio', 'pydantic'}} & {{*sys.modules}})"
        run = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=WAIT_SECONDS, check=True
        )
        assert run.stdout == "set()\n", name
