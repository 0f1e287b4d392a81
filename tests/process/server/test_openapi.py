"""The OpenAPI document against the server: generated requests, valid and invalid."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.process.server.conftest import DESCRIBED, Serve, Served
from tests.process.server.described_answers import PROBLEM, successes

EXCLUDED = "positive_data_acceptance"
"""What fits the document may be refused: parameters have to fit the schema of an agent, which is in no document."""

WANTED = {"agent_name": "echo", "parameters": {"message": "Hi"}}
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
            "--exclude-path-regex", WAITING,
        ],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-6000:]


def test_operations_have_names_of_functions_streams_their_content_and_tokens_a_scheme(share: Serve) -> None:
    document = share("--no-worker").client.get("/openapi.json").json()
    operations = [one for path in document["paths"].values() for one in path.values()]
    names = [one["operationId"] for one in operations]
    assert len(names) == len(set(names))
    assert {"create_run", "list_runs", "stop_run", "get_run_result", "get_session_result", "worker_claim"} <= set(names)
    for path in ("/runs/{run_id}/stream", "/sessions/{session_id}/stream", "/sse/sessions"):
        assert list(document["paths"][path]["get"]["responses"]["200"]["content"]) == ["text/event-stream"]
    assert document["components"]["securitySchemes"]["bearer"] == {"type": "http", "scheme": "bearer"}
    assert document["security"] == [{"bearer": []}, {}]


def test_each_answer_has_a_schema_with_fields(share: Serve) -> None:
    document = share("--no-worker").client.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    found = dict(successes(document))
    empty = []
    for operation, schema in found.items():
        one = schema["items"] if schema.get("type") == "array" else schema
        if not schemas[one["$ref"].rsplit("/", 1)[1]]["properties"]:
            empty.append(operation)
    assert len(found) > 50
    assert empty == []
    assert [name for name in schemas if "__" in name or name.endswith("-Output")] == []  # two shapes of one name


def test_an_answer_that_the_document_does_not_describe_is_found(served: Served) -> None:
    run = served.start("echo", {"message": "Hi"})
    answer = served.client.get(f"/runs/{run['run_id']}")
    DESCRIBED.check(answer)
    without = {name: value for name, value in answer.json().items() if name != "status"}
    for wrong in ({**answer.json(), "created_at": "yesterday"}, {**answer.json(), "more": 1}, without):
        with pytest.raises(AssertionError, match="get"):
            DESCRIBED.check(httpx.Response(200, json=wrong, request=answer.request))


def test_a_refusal_is_a_problem_document_with_a_code(served: Served) -> None:
    client, bad = served.client, {"type": "start_session", "agent_name": "echo", "parameters": {}}
    answers = {
        "run_not_found": client.get("/runs/run_0"),
        "webhook_not_found": client.delete("/webhooks/whk_0"),
        "invalid_request": client.post("/webhooks", json={"url": 1}),
        "not_found": client.get("/nothing"),
        "method_not_allowed": client.put("/runs"),
        "parameter_validation_failed": client.post("/runs", json=bad),
    }
    for code, answer in answers.items():
        document = answer.json()
        assert answer.headers["content-type"] == PROBLEM
        assert (document["code"], document["status"], document["type"]) == (code, answer.status_code, "about:blank")
        assert document["title"] == answer.reason_phrase
        assert document["message"]
    untyped = client.post("/webhooks", content=b'{"url": "http://127.0.0.1/"}')
    assert untyped.json()["detail"] == "body: expected JSON; send Content-Type: application/json"
    assert answers["invalid_request"].json()["detail"] == "body.url: Input should be a valid string"
    of_contract = answers["parameter_validation_failed"].json()
    assert of_contract["detail"]["validation_errors"] == of_contract["validation_errors"]


@pytest.mark.parametrize(
    ("address", "named", "takes"),
    [
        ("/runs?agnet_name=echo", "'agnet_name'", "agent_name, batch_id"),
        ("/runs/run_0?waits=1", "'waits'", "takes wait"),
        ("/sessions?limit=1&x=1&a=2", "'a', 'x'", "after, limit, parent_session_id"),
        ("/inputs?run_id=run_0", "'run_id'", "takes no parameter"),
    ],
)
def test_an_unknown_query_parameter_is_refused(share: Serve, address: str, named: str, takes: str) -> None:
    refused = share("--no-worker").client.get(address)
    assert (refused.status_code, refused.json()["code"]) == (400, "unknown_parameter")
    assert f"unknown query parameter {named}; GET" in refused.json()["message"]
    assert takes in refused.json()["message"]


def test_parameters_of_older_clients_and_of_pages_are_accepted(share: Serve) -> None:
    client = share("--no-worker").client
    client.post("/agents", json={"name": "a"}).raise_for_status()
    assert client.get("/agents/a?raw=true").status_code == 200
    assert client.get("/agents?tags=x").json() == []
    assert client.get("/ui/runs?from=mail").status_code == 200


def test_a_created_run_has_its_address(served: Served) -> None:
    run = served.client.post("/runs", json={"type": "start_session", **WANTED})
    assert run.headers["Location"] == f"/runs/{run.json()['run_id']}"
    assert served.client.get(run.headers["Location"], params={"wait": "30"}).json()["status"] == "completed"
    assert served.client.get(f"{run.headers['Location']}/result").json()["result_data"] == {"echo": ["Hi"], "tags": []}
