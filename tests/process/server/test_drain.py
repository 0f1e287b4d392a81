"""The drain of a worker from its page."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from ao_runner.store.opening import StorePlace
from tests.process.server.conftest import BOUND_SECONDS, Serve, Served, wait_for
from tests.process.server.test_workers import StartWorker, log_of, start_worker, started

__all__ = ["start_worker"]
HTML = {"accept": "text/html"}


@pytest.fixture
def served(serve: Serve, place: StorePlace) -> Served:
    """A server with a worker, with each engine."""
    return serve(home=place.home / "home", store=place.url)


def page(server: Served) -> str:
    return server.client.get("/ui/workers", headers=HTML).raise_for_status().text


def workers(server: Served) -> list[str]:
    """Return the ids of the workers that can be drained."""
    return re.findall(r'href="/ui/workers/([^/"]+)/drain"', page(server))


def drain(server: Served, worker_id: str) -> httpx.Response:
    return server.client.post(f"/ui/workers/{worker_id}/drain", headers=HTML)


def begun(server: Served, told: Path) -> dict[str, Any]:
    """Return a run that has begun."""
    run = started(server, told)
    wait_for(lambda: log_of(server, run))
    return run


def test_a_drained_worker_beside_the_server_finishes_its_runs_and_stays_away_until_it_is_resumed(
    served: Served, tmp_path: Path
) -> None:
    first = begun(served, tmp_path / "told")
    (worker_id,) = workers(served)
    assert "beside this server" in served.client.get(f"/ui/workers/{worker_id}/drain", headers=HTML).text
    assert drain(served, worker_id).headers["location"] == "/ui/workers"
    assert 'class="badge warn">draining' in page(served)
    second = started(served, tmp_path / "told")
    (tmp_path / "told").touch()
    assert served.ended(first["run_id"])["status"] == "completed"
    wait_for(lambda: "the worker was drained" in served.log)
    assert served.run(second["run_id"])["status"] == "pending"
    assert "It is not started again until you resume it" in page(served)
    assert "is started again" not in served.log
    assert served.client.post("/ui/workers/start", headers=HTML).status_code == 303
    assert served.ended(second["run_id"])["status"] == "completed"
    assert "until you resume it" not in page(served)
    actions = served.client.get("/ui/actions", headers=HTML).text
    assert f"POST /ui/workers/{worker_id}/drain" in actions
    assert "POST /ui/workers/start" in actions


def test_a_worker_elsewhere_drains_and_exits(
    serve: Serve, place: StorePlace, start_worker: StartWorker, tmp_path: Path
) -> None:
    server = serve("--no-worker", home=place.home / "home", store=place.url)
    worker = start_worker(server)
    run = begun(server, tmp_path / "told")
    (worker_id,) = workers(server)
    drain(server, worker_id)
    wait_for(lambda: "requested by the coordinator" in (tmp_path / "elsewhere.log").read_text())
    other = started(server, tmp_path / "told")
    (tmp_path / "told").touch()
    assert worker.wait(BOUND_SECONDS) == 0
    assert server.run(run["run_id"])["status"] == "completed"
    assert server.run(other["run_id"])["status"] == "pending"
    assert drain(server, worker_id).status_code == 404


def test_a_worker_that_does_not_know_of_drains_does_not_ask_without_pause(serve: Serve) -> None:
    server = serve("--no-worker")
    worker = {"worker_id": "remote-of-a-test"}
    offer = {"owner": "remote-of-a-test", "host": "elsewhere"}
    server.client.post("/worker/join", json={**worker, "offer": offer}).raise_for_status()
    assert drain(server, "remote-of-a-test").status_code == 303
    told = server.client.post("/worker/orders", json={**worker, "drains": False}).raise_for_status()
    assert told.json() == {"stops": {}, "drain": True, "answers": []}
    with pytest.raises(httpx.ReadTimeout):
        server.client.post("/worker/orders", json=worker, timeout=1)


@pytest.mark.parametrize(("worker_id", "status"), [("nobody", 404), ("x" * 129, 422), ("a%20b", 422)])
def test_an_unknown_worker_is_not_drained(share: Serve, worker_id: str, status: int) -> None:
    assert drain(share("--no-worker"), worker_id).status_code == status
