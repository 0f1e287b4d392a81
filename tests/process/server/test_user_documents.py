"""What the documents of the users ask of the server and its pages, row by row, with the tests that promise it."""

import ast
from pathlib import Path
from typing import Any, Final

import pytest

from tests.process.server.conftest import Served

TESTS: Final = Path(__file__).parents[2]
SERVER: Final = "process/server"
ROWS: Final = {
    "an agent's output_schema: API, editor tab, Validate Schema": (
        f"{SERVER}/test_user_documents.py", "test_an_agents_output_schema_is_in_the_api_and_a_tab_of_the_editor"),
    "a tab MCP Servers in the editor": (
        f"{SERVER}/ui/test_agent_editor.py", "test_mcp_servers_have_a_tab_with_their_problems"),
    "an invalid Draft-7 schema is refused with its place": (
        f"{SERVER}/test_runs.py", "test_an_agent_with_a_bad_schema_is_refused_with_the_place_of_the_fault"),
    "one retry, in the same session, visible": (
        f"{SERVER}/test_user_documents.py", "test_a_retry_stays_in_its_session_and_is_visible"),
    "result_text or result_data, never both": (
        f"{SERVER}/test_user_documents.py", "test_a_result_is_text_or_data"),
    "retries exhausted: output_schema_validation_failed with its errors": (
        f"{SERVER}/test_user_documents.py", "test_exhausted_retries_fail_with_their_errors"),
    "validation status, errors, retries and result of a session": (
        f"{SERVER}/ui/test_session_page.py", "test_a_session_tells_validation_errors_and_retries"),
    "GET /sessions/{id}/result: validated_output, schema_validation": (
        f"{SERVER}/test_runs.py", "test_a_run_of_an_agent_ends_with_its_validated_result"),
    "the schema of the agent is authoritative": (
        f"{SERVER}/test_user_documents.py", "test_the_schema_of_an_agent_cannot_be_replaced"),
    "callbacks: indented JSON, else text, error, stopped; several together": (
        f"{SERVER}/test_callbacks.py", "test_the_end_of_a_child_resumes_its_parent"),
    "parameters_schema: authoritative, checked before queueing": (
        f"{SERVER}/test_runs.py", "test_parameters_that_do_not_fit_queue_nothing"),
    "a form by the schema, problems at their fields": (
        f"{SERVER}/ui/test_agent_editor.py", "test_the_dialog_shows_problems_at_their_fields_and_keeps_the_rest"),
    "a resume takes a prompt only": (
        f"{SERVER}/test_user_documents.py", "test_a_resume_takes_a_prompt_only"),
    "a caller's output_schema and output_schema_name": (
        f"{SERVER}/test_user_documents.py", "test_a_caller_asks_for_a_schema_inline_or_by_name"),
    "output_schema_options, and an inline schema, in the run form": (
        f"{SERVER}/ui/test_agent_editor.py", "test_a_run_can_ask_for_a_schema_of_its_own_and_its_retries"),
    "schemas: create, list, show, delete, with a page": (
        f"{SERVER}/ui/test_agent_editor.py", "test_a_named_schema_is_created_with_checks_and_deleted"),
    "SchemaNotFound is an object": (
        f"{SERVER}/test_user_documents.py", "test_an_unknown_schema_is_answered_as_an_object"),
    "a run without an agent takes a prompt among its parameters": (
        f"{SERVER}/test_user_documents.py", "test_a_run_without_an_agent_takes_a_prompt_among_its_parameters"),
    "MCP: output_schema and output_schema_name": (
        f"{SERVER}/test_mcp.py", "test_what_cannot_be_started_is_told_and_queues_nothing"),
    "an agent response as XML, JSON or Markdown": (
        "process/executors/core/test_output_contract.py",
        "test_an_agents_response_becomes_its_model_whatever_its_form"),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_each_row_has_a_test(row: str) -> None:
    path, name = ROWS[row]
    tree = ast.parse((TESTS / path).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_an_unknown_schema_is_answered_as_an_object(served: Served) -> None:
    body = {"type": "start_session", "parameters": {"prompt": "x"}, "output_schema_name": "nothing"}
    for answer in (served.client.get("/schemas/nothing"), served.client.post("/runs", json=body)):
        assert answer.status_code == 404
        assert answer.json()["error"] == "SchemaNotFound"
        assert "'nothing'" in answer.json()["message"]


def test_a_run_without_an_agent_takes_a_prompt_among_its_parameters(served: Served) -> None:
    refused = served.client.post("/runs", json={"type": "start_session", "prompt": "x"})
    assert refused.status_code == 422
    assert "parameters" in refused.text
    body = {"type": "start_session", "parameters": {"prompt": "x"}, "additional_demands": {"tags": ["gpu"]}}
    assert served.client.post("/runs", json=body).status_code == 201


SCHEMA: Final = {"type": "object", "required": ["level"], "properties": {"level": {"type": "integer"}}}
GOOD: Final[dict[str, Any]] = {"json": {"level": 3}}
BAD: Final[dict[str, Any]] = {"json": {"level": "high"}}


def add_agent(server: Served, *answers: dict[str, Any], **more: Any) -> None:
    """Create the agent `judge`, which answers by a script."""
    script = {"script": {"answers": answers}}
    server.add_agent({"name": "judge", "profile": "scripted", "executor_config": script, **more})


def ended(server: Served, **more: Any) -> dict[str, Any]:
    """Run the agent, and return the run with its `result`."""
    run = server.ended(server.start("judge", {"prompt": "Go"}, **more)["run_id"])
    answer = server.client.get(f"/runs/{run['run_id']}/result")
    return run | {"result": answer.json() if answer.status_code == 200 else None}


def test_an_agents_output_schema_is_in_the_api_and_a_tab_of_the_editor(served: Served) -> None:
    add_agent(served, GOOD, output_schema=SCHEMA)
    assert served.client.get("/agents/judge").json()["output_schema"] == SCHEMA
    page = served.client.get("/ui/agents/judge").text
    tab = page.partition('id="output-title">Output Schema')[2].partition("</section>")[0]
    assert "validate each answer and ask again" in tab
    assert ">Validate Schema</button>" in tab
    assert "&#34;level&#34;" in tab


def test_a_retry_stays_in_its_session_and_is_visible(served: Served) -> None:
    add_agent(served, BAD, GOOD, output_schema=SCHEMA)
    run = ended(served)
    assert run["result"]["schema_validation"] == {"valid": True, "schema_name": None, "retry_count": 1}
    assert len(run["output"]["attempts"]) == 2
    runs = served.client.get("/runs", params={"session_id": run["session_id"]}).json()["runs"]
    assert [one["run_id"] for one in runs] == [run["run_id"]]
    assert "$.level" in served.client.get(f"/ui/runs/{run['run_id']}").text


@pytest.mark.parametrize(("answer", "field"), [({"text": "Yes."}, "result_text"), (GOOD, "result_data")])
def test_a_result_is_text_or_data(served: Served, answer: dict[str, Any], field: str) -> None:
    add_agent(served, answer, **({"output_schema": SCHEMA} if field == "result_data" else {}))
    result = ended(served)["result"]
    assert {name for name in ("result_text", "result_data") if result[name] is not None} == {field}


def test_exhausted_retries_fail_with_their_errors(served: Served) -> None:
    add_agent(served, BAD, BAD, output_schema=SCHEMA)
    run = ended(served)
    assert run["failure"]["type"] == "output_schema_validation_failed"
    (error,) = run["failure"]["validation_errors"]
    assert error.startswith("$.level")


def test_the_schema_of_an_agent_cannot_be_replaced(served: Served) -> None:
    add_agent(served, GOOD, output_schema=SCHEMA)
    body = {"type": "start_session", "agent_name": "judge", "parameters": {"prompt": "Go"}, "output_schema": {}}
    refused = served.client.post("/runs", json=body)
    assert refused.status_code == 422
    assert "authoritative" in refused.text
    assert served.client.get("/runs").json()["runs"] == []


def test_a_resume_takes_a_prompt_only(served: Served) -> None:
    asks = {"type": "object", "required": ["topic"], "properties": {"topic": {"type": "string"}}}
    add_agent(served, {"text": "One."}, {"text": "Two."}, parameters_schema=asks)
    ids = served.start("judge", {"topic": "x"})
    served.ended(ids["run_id"])
    body = {"type": "resume_session", "session_id": ids["session_id"]}
    assert served.client.post("/runs", json={**body, "parameters": {"topic": "y"}}).status_code == 400
    assert served.client.post("/runs", json={**body, "parameters": {"prompt": "More"}}).status_code == 201


def test_a_caller_asks_for_a_schema_inline_or_by_name(served: Served) -> None:
    add_agent(served, GOOD)
    served.client.post("/schemas", json={"name": "level-1", "schema": SCHEMA}).raise_for_status()
    for more, name in (({"output_schema": SCHEMA}, None), ({"output_schema_name": "level-1"}, "level-1")):
        result = ended(served, **more)["result"]
        assert result["validated_output"] == {"level": 3}
        assert result["schema_validation"]["schema_name"] == name
