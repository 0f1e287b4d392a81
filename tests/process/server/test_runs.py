"""Agents, runs and results over HTTP, with a worker that performs them."""

import json

import pytest

from tests.process.server.conftest import EXAMPLES, Serve, Served


def test_a_run_of_an_agent_ends_with_its_validated_result(served: Served) -> None:
    ids = served.start("echo", {"message": "Hi", "times": 2})
    run = served.ended(ids["run_id"])
    assert run["status"] == "completed", served.log
    result = served.client.get(f"/sessions/{ids['session_id']}/result").json()
    assert result["validated_output"] == result["result_data"] == {"echo": ["Hi", "Hi"], "tags": []}
    assert result["schema_validation"] == {"valid": True, "schema_name": None, "retry_count": 0}


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_server_works_the_same_with_each_engine(share: Serve, shared_store: str) -> None:
    server = share(store=shared_store)
    server.add_agent(json.loads((EXAMPLES / "echo/blueprint.json").read_text()))
    run = server.ended(server.start("echo", {"message": "Hi"})["run_id"])
    assert run["status"] == "completed", server.log
    events = server.client.get(f"/sessions/{run['session_id']}/log").json()["events"]
    assert [event["event"]["event_type"] for event in events][-1] == "result"


def test_parameters_that_do_not_fit_queue_nothing(served: Served) -> None:
    body = {"type": "start_session", "agent_name": "echo", "parameters": {"times": "three"}}
    answer = served.client.post("/runs", json=body)
    assert answer.status_code == 400
    detail = answer.json()["detail"]
    assert detail["error"] == "parameter_validation_failed"
    assert {problem["path"] for problem in detail["validation_errors"]} == {"$", "$.times"}
    assert served.client.get("/runs").json()["runs"] == []


def test_a_repeated_request_adds_one_run(served: Served) -> None:
    body = {"type": "start_session", "agent_name": "echo", "parameters": {"message": "Hi"}}
    answers = [served.client.post("/runs", json=body, headers={"Idempotency-Key": "one"}) for _ in range(3)]
    assert len({answer.json()["run_id"] for answer in answers}) == 1
    assert [answer.headers.get("idempotent-replayed") for answer in answers] == [None, "true", "true"]
    other = served.client.post("/runs", json={**body, "priority": 1}, headers={"Idempotency-Key": "one"})
    assert other.status_code == 422
    assert len(served.client.get("/runs").json()["runs"]) == 1


def test_runs_are_found_by_their_labels(share: Serve) -> None:
    server = share("--no-worker")
    body = {"type": "start_session", "parameters": {"prompt": "Hi"}}
    labels = [{"team": "docs", "area": "a=b"}, {"team": "docs"}, {"team": "doc"}, {}]
    for one in labels:
        assert server.client.post("/runs", json={**body, "labels": one}).status_code == 201

    def found(*wanted: str) -> list[dict[str, str]]:
        runs = server.client.get("/runs", params={"label": list(wanted)}).json()["runs"]
        return [run["labels"] for run in reversed(runs)]

    assert found() == labels
    assert found("team=docs") == labels[:2]
    assert found("team=docs", "area=a=b") == labels[:1]
    assert server.client.get("/runs?label=team").status_code == 422
    page = server.client.get("/ui/runs", params={"label": "team=docs"}).text
    assert page.count('class="badge" href="/ui/runs?label=team%3Ddocs"') == 2
    assert "team=doc<" not in page
    assert "No run fits" in server.client.get("/ui/runs?label=team").text


def test_a_batch_is_queued_whole_or_not_at_all(served: Served) -> None:
    good = {"type": "start_session", "agent_name": "echo", "parameters": {"message": "Hi"}}
    refused = served.client.post("/runs/batch", json={"runs": [good, {**good, "agent_name": "nobody"}]})
    assert (refused.status_code, refused.json()["detail"]) == (404, "$.runs[1]: Agent not found: nobody")
    unfit = {**good, "parameters": {"times": 1}}
    refused = served.client.post("/runs/batch", json={"runs": [good, good, {**good, "labels": {"team": ""}}, unfit]})
    assert [one["path"] for one in refused.json()["validation_errors"]] == ["$.runs[2].labels.team"]
    assert served.client.get("/runs").json()["runs"] == []
    added = served.client.post("/runs/batch", json={"runs": [good] * 5}).json()["runs"]
    assert {served.ended(run["run_id"])["status"] for run in added} == {"completed"}


@pytest.mark.parametrize("field", ["output_schema", "parameters_schema", "default_output_schema"])
def test_an_agent_with_a_bad_schema_is_refused_with_the_place_of_the_fault(served: Served, field: str) -> None:
    schema = {"type": "object", "properties": {"age": {"type": "intger"}}}
    document = {"name": "wrong", field: schema}
    answer = served.client.post("/agents", json=document)
    assert answer.status_code == 422
    assert {problem["path"] for problem in answer.json()["detail"]["problems"]} == {f"$.{field}.properties.age.type"}
    assert served.client.post("/agents/check", json=document).json()["valid"] is False
    assert served.client.get("/agents/wrong").status_code == 404


def test_a_stream_that_reconnects_misses_and_repeats_nothing(served: Served) -> None:
    run_id = served.start("echo", {"message": "Hi"})["run_id"]
    with served.client.stream("GET", f"/runs/{run_id}/stream") as stream:
        whole = [line.removeprefix("id: ") for line in stream.iter_lines() if line.startswith("id: ")]
    with served.client.stream("GET", f"/runs/{run_id}/stream", headers={"Last-Event-ID": whole[0]}) as stream:
        rest = [line.removeprefix("id: ") for line in stream.iter_lines() if line.startswith("id: ")]
    assert len(whole) > 2
    assert rest == whole[1:]


def test_the_log_of_a_session_is_read_in_pages(served: Served) -> None:
    run = served.ended(served.start("echo", {"message": "Hi"})["run_id"])
    path = f"/sessions/{run['session_id']}/log"
    whole = served.client.get(path).json()["events"]
    page = served.client.get(path, params={"limit": 2}).json()
    pages = [page["events"]]
    while page["next_after"] is not None:
        page = served.client.get(path, params={"limit": 2, "after": page["next_after"]}).json()
        pages.append(page["events"])
    assert len(pages) > 1
    assert [event for page in pages for event in page] == whole
