"""What the documents of the users ask of the server and its pages, row by row, with the tests that promise it."""

import ast
from pathlib import Path
from typing import Final

import pytest

from tests.process.server.conftest import Served

TESTS: Final = Path(__file__).parents[2]
SERVER: Final = "process/server"
ROWS: Final = {
    "an agent's output_schema: API, editor tab, Validate Schema": (
        f"{SERVER}/ui/test_agent_editor.py", "test_a_schema_is_validated_sampled_and_previewed"),
    "a tab MCP Servers in the editor": (
        f"{SERVER}/ui/test_agent_editor.py", "test_mcp_servers_have_a_tab_with_their_problems"),
    "an invalid Draft-7 schema is refused with its place": (
        f"{SERVER}/test_runs.py", "test_an_agent_with_a_bad_schema_is_refused_with_the_place_of_the_fault"),
    "one retry, in the same session, visible": (
        f"{SERVER}/ui/test_live.py", "test_an_attempt_that_does_not_fit_is_shown_with_the_path_of_its_error"),
    "result_text or result_data, never both": (
        f"{SERVER}/test_mcp.py", "test_a_client_lists_starts_and_resumes_agents_under_contracts"),
    "retries exhausted: output_schema_validation_failed with its errors": (
        f"{SERVER}/ui/test_session_page.py", "test_a_session_tells_validation_errors_and_retries"),
    "validation status, errors, retries and result of a session": (
        f"{SERVER}/ui/test_session_page.py", "test_a_session_tells_validation_errors_and_retries"),
    "GET /sessions/{id}/result: validated_output, schema_validation": (
        f"{SERVER}/test_runs.py", "test_a_run_of_an_agent_ends_with_its_validated_result"),
    "the schema of the agent is authoritative": (
        "process/runner/cli/test_contract.py", "test_free_text_is_refused_where_the_schema_is_the_designers"),
    "callbacks: indented JSON, else text, error, stopped; several together": (
        f"{SERVER}/test_callbacks.py", "test_the_end_of_a_child_resumes_its_parent"),
    "parameters_schema: authoritative, checked before queueing": (
        f"{SERVER}/test_runs.py", "test_parameters_that_do_not_fit_queue_nothing"),
    "a form by the schema, problems at their fields": (
        f"{SERVER}/ui/test_agent_editor.py", "test_the_dialog_shows_problems_at_their_fields_and_keeps_the_rest"),
    "a resume takes a prompt only": (
        f"{SERVER}/ui/test_live.py", "test_a_session_shows_its_next_run_when_it_is_resumed"),
    "a caller's output_schema and output_schema_name": (
        f"{SERVER}/ui/test_agent_editor.py", "test_a_run_can_ask_for_a_named_schema"),
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
