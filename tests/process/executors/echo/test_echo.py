"""`ao-echo-exec`, the smallest valid executor."""

import pytest

from tests.process.executors.driver import bare_environment, installed, invocation, run

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
def test_a_plain_run_imports_no_models_and_no_schemas(fields: dict[str, object]) -> None:
    ended = run(ECHO, invocation(**fields), env={**bare_environment(), "PYTHONPROFILEIMPORTTIME": "1"})

    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert ended.terminal["event_type"] == "result"
    assert "ao_executors.core.runs" in imported
    assert imported & SLOW_TO_IMPORT == set()
    assert imported & {f"ao_protocol.{name}" for name in NOT_NEEDED} == set()
    assert imported & {"ao_executors.core.conformance", "ao_executors.core.task_from_invocation"} == set()
