"""Batches over HTTP and on the pages: what they have come to, and the failed runs again."""

from typing import Any

from tests.process.runner.cli.calling import miniature
from tests.process.server.conftest import Serve


def test_failed_runs_of_a_batch_run_again_in_it(share: Serve) -> None:
    server = share()
    good: dict[str, Any] = {
        "type": "start_session",
        "profile": miniature("answers_at_once"),
        "parameters": {"prompt": "x"},
    }
    body = {"runs": [good, {**good, "profile": miniature("crashes_by_signal")}]}
    keyed = {"Idempotency-Key": "one"}
    added = server.client.post("/runs/batch", json=body, headers=keyed).json()
    batch = added["batch_id"]
    assert server.client.post("/runs/batch", json=body, headers=keyed).json() == added
    first, second = [server.ended(run["run_id"]) for run in added["runs"]]
    assert (first["batch_id"], first["status"], second["status"]) == (batch, "completed", "failed"), server.log

    def statuses() -> dict[str, int]:
        found = server.client.get(f"/batches/{batch}").json()
        assert found["runs"] == 2
        return {name: count for name, count in found["statuses"].items() if count}

    assert statuses() == {"completed": 1, "failed": 1}
    rows = server.client.get(f"/batches/{batch}/results").json()["results"]
    assert [(row["place"], row["status"], row["error_type"]) for row in rows] == [
        (1, "completed", None), (2, "failed", "executor_crashed")
    ]  # fmt: skip
    assert rows[1]["error_message"]
    page = server.client.get(f"/ui/runs?batch={batch}").text
    assert "2 of 2 ended" in page
    assert f'action="/ui/batches/{batch}/rerun"' in page
    assert f"/ui/runs?batch={batch}" in server.client.get(f"/ui/runs/{first['run_id']}").text

    (run,) = server.client.post(f"/batches/{batch}/rerun").json()["runs"]
    ended = server.ended(run["run_id"])
    assert (ended["batch_id"], ended["succeeds"]) == (batch, second["run_id"])
    rows = server.client.get(f"/batches/{batch}/results").json()["results"]
    assert [row["run_id"] for row in rows] == [first["run_id"], run["run_id"]]
    moved = server.client.post(f"/ui/batches/{batch}/rerun", follow_redirects=False)
    assert (moved.status_code, moved.headers["location"]) == (303, f"/ui/runs?batch={batch}")
    assert len(server.client.get(f"/runs?batch_id={batch}").json()["runs"]) == 4


def test_an_unknown_batch_is_not_found(share: Serve) -> None:
    server = share("--no-worker")
    assert server.client.get("/batches/bat_none").status_code == 404
    assert server.client.post("/batches/bat_none/rerun").status_code == 404
