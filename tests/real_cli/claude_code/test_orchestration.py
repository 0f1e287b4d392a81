"""Agents that start agents: Claude parents and Claude children through `ao serve`, with only the models replaced."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ao_model_simulator import ModelSimulator, claude_environment
from tests.conftest import StartModel
from tests.process.server.conftest import Served, wait_for

SERVER = {"orchestrator": {"type": "http", "url": "${runner.orchestrator_mcp_url}"}}
ARGUMENTS = ("--token", "--host", "127.0.0.2" if sys.platform == "linux" else "127.0.0.1")
GRADE = {"type": "object", "required": ["grade"], "properties": {"grade": {"type": "integer"}}}
ServeClaude = Callable[..., Served]


def starting_a_grader(**arguments: object) -> dict[str, Any]:
    """Return the answer of a model that calls a tool."""
    given = {"agent_name": "grader", "parameters": {"prompt": "Grade it."}, **arguments}
    name = "mcp__orchestrator__start_agent_session"
    return {"content": [{"type": "tool_use", "id": "toolu_1", "name": name, "input": given}]}


@pytest.fixture
def serve_claude(tmp_path: Path) -> Iterator[ServeClaude]:
    """Start a server with the agents `director` and `grader`, each with a model of its own.

    It demands tokens, and does not listen on the usual address.
    """
    with ExitStack() as stack:

        def start(director: ModelSimulator, grader: ModelSimulator) -> Served:
            (tmp_path / "tmp").mkdir()
            environ = {**claude_environment(director.url, tmp_path), "AO_STORE": "local"}
            server = stack.enter_context(Served(tmp_path / "home", ARGUMENTS, environ))
            tokens = json.loads((server.home / "server" / "tokens.json").read_text())
            server.client.headers["Authorization"] = f"Bearer {tokens['client']}"
            server.add_agent({"name": "director", "mcp_servers": SERVER, "executor_config": model_at(director)})
            server.add_agent({"name": "grader", "executor_config": model_at(grader)})
            return server

        yield start


def model_at(model: ModelSimulator) -> dict[str, Any]:
    return {"env": {"ANTHROPIC_BASE_URL": model.url}}


def test_a_parent_waits_for_a_child_whose_answer_keeps_the_contract_of_the_parent(
    serve_claude: ServeClaude, start_model: StartModel
) -> None:
    director = start_model(
        starting_a_grader(output_schema=GRADE),
        {
            "text": "It is a 2.",
            "expect": {"tool_result_contains": ['"validated_output"', '"grade":2', '"valid":true']},
        },
    )
    grader = start_model({"text": "Fine."}, {"json": {"grade": 2}})
    server = serve_claude(director, grader)

    ended = server.ended(server.start("director", {"prompt": "Have it graded."})["run_id"])

    assert ended["status"] == "completed", (ended, server.log)
    (child,) = runs(server, parent_session_id=ended["session_id"])
    assert (child["agent_name"], child["status"], child["execution_mode"]) == ("grader", "completed", "sync")


@pytest.mark.slow  # beside the server, tests/process/server/test_callbacks.py plays the same with scripts
def test_a_parent_ends_its_turn_and_is_resumed_with_the_result_of_its_child(
    serve_claude: ServeClaude, start_model: StartModel
) -> None:
    director = start_model(
        starting_a_grader(mode="async_callback"),
        {"text": "I wait.", "expect": {"tool_result_contains": '"status":"pending"'}},
        {
            "text": "It is a 2.",
            "expect": {
                "last_user_contains": ["<agent-callback session=", 'status="completed"', "Grade: 2"],
                "conversation_contains": "I wait.",
            },
        },
    )
    grader = start_model({"text": "Grade: 2"})
    server = serve_claude(director, grader)

    session_id = server.start("director", {"prompt": "Have it graded."})["session_id"]
    first, second = wait_for(lambda: both_ended(server, session_id))

    assert [first["status"], second["status"]] == ["completed", "completed"], server.log
    (child,) = runs(server, parent_session_id=session_id)
    assert child["session_id"] in second["parameters"]["prompt"]
    result = server.client.get(f"/sessions/{session_id}/result").json()
    assert result["result_text"] == "It is a 2."


def both_ended(server: Served, session_id: str) -> list[dict[str, Any]] | None:
    found = runs(server, session_id=session_id)
    return found if len(found) == 2 and all(run["completed_at"] for run in found) else None


def runs(server: Served, **wanted: str) -> list[dict[str, Any]]:
    """Return the runs that fit a filter, oldest first."""
    return list(server.client.get("/runs", params=wanted).raise_for_status().json()["runs"])[::-1]
