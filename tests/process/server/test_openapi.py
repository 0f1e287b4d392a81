"""The OpenAPI document against the server: generated requests, valid and invalid."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.server.conftest import Serve

EXCLUDED = "positive_data_acceptance"
"""What fits the document may be refused: parameters have to fit the schema of an agent, which is in no document."""

WANTED = {"agent_name": "echo", "parameters": {"prompt": "Hi"}}
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


def test_operations_have_names_of_functions_streams_their_content_and_tokens_a_scheme(serve: Serve) -> None:
    document = serve("--no-worker").client.get("/openapi.json").json()
    operations = [one for path in document["paths"].values() for one in path.values()]
    names = [one["operationId"] for one in operations]
    assert len(names) == len(set(names))
    assert {"create_run", "list_runs", "stop_run", "get_run_result", "get_session_result", "worker_claim"} <= set(names)
    for path in ("/runs/{run_id}/stream", "/sessions/{session_id}/stream", "/sse/sessions"):
        assert list(document["paths"][path]["get"]["responses"]["200"]["content"]) == ["text/event-stream"]
    assert document["components"]["securitySchemes"]["bearer"] == {"type": "http", "scheme": "bearer"}
    assert document["security"] == [{"bearer": []}, {}]


def test_a_created_run_and_its_result_are_what_the_document_describes(serve: Serve) -> None:
    server = serve()
    server.add_agent(
        {"name": "echo", "profile": "scripted", "executor_config": {"script": {"answers": [{"text": "A"}]}}}
    )
    document = server.client.get("/openapi.json").json()

    def fields_of(path: str, method: str, status: str) -> set[str]:
        schema = document["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"]
        assert list(schema) == ["$ref"]
        return set(document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]["required"])

    run = server.client.post("/runs", json={"type": "start_session", **WANTED})
    assert run.json().keys() == fields_of("/runs", "post", "201")
    assert run.headers["Location"] == f"/runs/{run.json()['run_id']}"
    assert server.client.get(run.headers["Location"], params={"wait": "30"}).json()["status"] == "completed"
    result = server.client.get(f"{run.headers['Location']}/result").json()
    assert result.keys() == fields_of("/runs/{run_id}/result", "get", "200")
    assert result.keys() == fields_of("/sessions/{session_id}/result", "get", "200")
