"""What HTTP itself offers: versions of things, HEAD, compression, the address of what was created."""

from typing import Any

import httpx
import pytest

from tests.process.server.conftest import Serve, Served

SCHEMA = {"name": "review-1", "schema": {"type": "object"}}


@pytest.fixture
def client(share: Serve) -> httpx.Client:
    """A client of a server without a worker."""
    return share("--no-worker").client


def test_an_agent_is_changed_only_in_the_version_that_was_read(client: httpx.Client) -> None:
    created = client.post("/agents", json={"name": "quick", "description": "1"})
    first = created.headers["ETag"]
    assert client.get("/agents/quick").headers["ETag"] == first
    changed = client.put("/agents/quick", json={"description": "2"}, headers={"If-Match": first})
    assert (changed.status_code, changed.json()["description"]) == (200, "2")
    second = changed.headers["ETag"]
    assert second != first
    calls: list[tuple[str, str, Any]] = [
        ("PUT", "/agents/quick", {"description": "3"}),
        ("PATCH", "/agents/quick", {"description": "3"}),
        ("PATCH", "/agents/quick/status", {"status": "inactive"}),
        ("DELETE", "/agents/quick", None),
    ]
    for method, path, body in calls:
        refused = client.request(method, path, json=body, headers={"If-Match": first})
        assert (refused.status_code, refused.json()["code"]) == (412, "changed_meanwhile")
        assert refused.json()["detail"].startswith("somebody else has changed quick; ")
    assert client.get("/agents/quick").headers["ETag"] == second
    for tag in (f'"other", {second}', "*"):
        tagged = client.patch("/agents/quick", json={"description": "4"}, headers={"If-Match": tag})
        assert tagged.status_code == 200
    weak = f"W/{tagged.headers['ETag']}"
    assert client.delete("/agents/quick", headers={"If-Match": weak}).status_code == 204
    assert client.put("/agents/quick", json={}, headers={"If-Match": "*"}).status_code == 404


def test_a_schema_is_deleted_only_in_the_version_that_was_read(client: httpx.Client) -> None:
    created = client.post("/schemas", json=SCHEMA)
    assert created.headers["Location"] == "/schemas/review-1"
    described = client.post("/schemas", json={**SCHEMA, "description": "new"})
    assert client.get("/schemas/review-1").headers["ETag"] == described.headers["ETag"] != created.headers["ETag"]
    for tag, status in ((created, 412), (described, 204)):
        answer = client.delete("/schemas/review-1", headers={"If-Match": tag.headers["ETag"]})
        assert answer.status_code == status


def test_what_was_created_has_an_address(served: Served) -> None:
    run = {"type": "start_session", "agent_name": "echo", "parameters": {"message": "Hi"}}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("/agents", {"name": "a"}), ("/schemas", SCHEMA), ("/runs", run), ("/runs/batch", {"runs": [run]}),
    ]  # fmt: skip
    for path, body in calls:
        created = served.client.post(path, json=body)
        assert created.status_code == 201
        assert served.client.get(created.headers["Location"]).status_code == 200
    hook = served.client.post("/webhooks", json={"url": "http://127.0.0.1:9/"})
    assert served.client.delete(hook.headers["Location"]).status_code == 204


@pytest.mark.parametrize("path", ["/runs", "/agents/a", "/health", "/openapi.json", "/ui/runs", "/static/app.css"])
def test_head_is_answered_as_get_without_a_body(client: httpx.Client, path: str) -> None:
    client.post("/agents", json={"name": "a"})
    read, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == read.headers["content-type"]
    assert head.headers.get("ETag") == read.headers.get("ETag")


def test_head_ends_of_a_stream_and_of_what_is_not_there(served: Served) -> None:
    run_id = served.start("echo", {"message": "Hi"})["run_id"]
    session_id = served.ended(run_id)["session_id"]
    head = served.client.head(f"/sessions/{session_id}/stream")
    assert (head.status_code, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert served.client.head("/runs/run_0").status_code == 404
    refused = served.client.head("/runner/runs")
    assert refused.status_code == 405
    assert served.client.put("/runs").headers["Allow"] == "GET, HEAD, POST"


def test_large_answers_are_compressed_and_streams_are_not(client: httpx.Client) -> None:
    client.post("/agents", json={"name": "a", "system_prompt": "long " * 5000})
    for path, encoding in (("/agents/a", "gzip"), ("/health", None), ("/openapi.json", "gzip")):
        assert client.get(path).headers.get("content-encoding") == encoding
    assert client.get("/agents/a").json()["system_prompt"] == "long " * 5000
    assert "content-encoding" not in client.get("/agents/a", headers={"accept-encoding": "identity"}).headers
    with client.stream("GET", "/sse/sessions") as stream:
        assert "content-encoding" not in stream.headers
