"""Workers of other hosts, which reach the store through `ao serve` only."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from ao_runner.store.opening import StorePlace
from tests.process.fork_server import start_ao
from tests.process.server.conftest import BOUND_SECONDS, EXAMPLES, ROOT, Serve, Served, wait_for

StartWorker = Callable[..., "subprocess.Popen[bytes]"]
UNTIL_TOLD: Final = str(ROOT / "tests/miniatures/works_until_told")
SHOWS_ITS_INVOCATION: Final = str(ROOT / "tests/miniatures/shows_its_invocation.py")
WORKER: Final = "remote-of-a-test"


@pytest.fixture
def start_worker(tmp_path: Path) -> Iterator[StartWorker]:
    """Start workers of a server, each with a home of its own, as on another host."""
    with ExitStack() as stack:

        def start(server: Served, *arguments: str, host: str = "elsewhere") -> "subprocess.Popen[bytes]":
            process = start_ao(
                ["worker", "--coordinator", server.url, *arguments],
                env={**os.environ, "AO_HOME": str(tmp_path / host), "AO_HOST": host},
                stderr=stack.enter_context((tmp_path / f"{host}.log").open("ab")),
                cwd=EXAMPLES / "echo",
            )
            stack.callback(process.wait, BOUND_SECONDS)
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def server(serve: Serve, place: StorePlace) -> Served:
    return without_worker(serve, place)


def without_worker(serve: Serve, place: StorePlace, port: int = 0) -> Served:
    return serve("--no-worker", home=place.home / "home", store=place.url, port=port)


def started(server: Served, told: Path, **more: Any) -> dict[str, Any]:
    """Queue a run that goes on until a file exists."""
    body = {"type": "start_session", "parameters": {"prompt": str(told)}, "profile": UNTIL_TOLD, **more}
    return dict(server.client.post("/runs", json=body).raise_for_status().json())


def log_of(server: Served, run: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the stored events of a run."""
    answer = server.client.get(f"/sessions/{run['session_id']}/log", params={"limit": 1000}).raise_for_status()
    return [one["event"] for one in answer.json()["events"]]


def log_behind(server: Served, run: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Wait for more than so many events of a run, and return them."""

    def look() -> list[dict[str, Any]]:
        log = log_of(server, run)
        return log if len(log) > count else []

    return list(wait_for(look))


def call(server: Served, name: str, **fields: Any) -> Any:
    """Make a call of a worker, as a program does that is none."""
    return server.client.post(f"/worker/{name}", json={"worker_id": WORKER, **fields})


def test_a_worker_performs_runs_through_the_server_alone(server: Served, start_worker: StartWorker) -> None:
    server.add_agent(json.loads((EXAMPLES / "echo/blueprint.json").read_text()))
    worker = start_worker(server)
    runs = [server.start("echo", {"message": str(number)}) for number in range(8)]
    for number, run in enumerate(runs):
        assert server.ended(run["run_id"])["status"] == "completed"
        result = server.client.get(f"/sessions/{run['session_id']}/result").json()
        assert result["validated_output"]["echo"] == [str(number)]
        assert server.client.get(f"/sessions/{run['session_id']}").json()["session"]["hostname"] == "elsewhere"
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(BOUND_SECONDS) == 0


def test_runs_survive_a_killed_server_with_all_acknowledged_events(
    serve: Serve, place: StorePlace, start_worker: StartWorker, tmp_path: Path
) -> None:
    server, told = without_worker(serve, place), tmp_path / "told"
    start_worker(server)
    runs = [started(server, told) for _ in range(3)]
    before = [log_behind(server, run, 3) for run in runs]
    server.process.kill()
    server.process.wait(BOUND_SECONDS)
    again = without_worker(serve, place, server.port)
    for run, acknowledged in zip(runs, before, strict=True):
        log_behind(again, run, len(acknowledged) + 3)
    told.touch()
    for run, acknowledged in zip(runs, before, strict=True):
        ended = again.ended(run["run_id"])
        assert (ended["status"], ended["attempt"]) == ("completed", 1)
        log = log_of(again, run)
        assert log[: len(acknowledged)] == acknowledged
        assert [event["seq"] for event in log] == [*range(1, len(log) + 1)]
        assert [event["event_type"] for event in log if event["event_type"] in {"result", "failure"}] == ["result"]


def test_a_run_of_a_killed_worker_ends_when_its_lease_does(
    server: Served, start_worker: StartWorker, tmp_path: Path
) -> None:
    worker = start_worker(server, "--lease", "2")
    run = started(server, tmp_path / "never")
    wait_for(lambda: log_of(server, run))
    worker.kill()
    ended = server.ended(run["run_id"])
    assert (ended["status"], ended["error_type"]) == ("failed", "attempt_lost")


def test_a_stop_reaches_a_worker_behind_the_server(server: Served, start_worker: StartWorker, tmp_path: Path) -> None:
    start_worker(server)
    run = started(server, tmp_path / "never")
    wait_for(lambda: log_of(server, run))
    assert server.client.post(f"/runs/{run['run_id']}/stop").json()["status"] == "stopping"
    assert server.ended(run["run_id"])["status"] == "stopped"


def test_a_session_is_resumed_where_it_was_begun(server: Served, start_worker: StartWorker, tmp_path: Path) -> None:
    told = tmp_path / "told"
    told.touch()
    first = start_worker(server, host="first")
    run = started(server, told)
    server.ended(run["run_id"])
    first.terminate()
    first.wait(BOUND_SECONDS)
    start_worker(server, host="second")
    body = {"type": "resume_session", "session_id": run["session_id"], "parameters": {"prompt": str(told)}}
    resumed = server.client.post("/runs", json=body).raise_for_status().json()["run_id"]
    other = started(server, told)
    server.ended(other["run_id"])  # the second host has claimed a run that was queued later
    assert server.run(resumed)["status"] == "pending"
    start_worker(server, host="first")
    assert server.ended(resumed)["status"] in {"completed", "failed"}


@pytest.fixture
def asked(share: Serve, shared_store: str) -> Iterator[Served]:
    """A shared server, with each engine, which a program calls as a worker."""
    server = share("--no-worker", store=shared_store)
    yield server
    call(server, "leave")


def test_a_claim_is_repeated_after_a_lost_answer_and_given_back_where_it_never_begins(asked: Served) -> None:
    offer = {"owner": WORKER, "host": "elsewhere", "lease_seconds": 1}
    claim = {"slots": 3, "claim_id": "one"}
    assert call(asked, "claim", **claim).status_code == 401
    assert call(asked, "join", offer=offer).status_code == 200
    run = started(asked, Path("/never"))
    (first,) = call(asked, "claim", **claim).json()["assignments"]
    assert call(asked, "claim", **claim).json()["assignments"] == [first]
    assert first["key"] == {"run_id": run["run_id"], "attempt": 1}
    wait_for(lambda: asked.run(run["run_id"])["status"] == "pending")
    assert call(asked, "started", key=first["key"]).status_code == 409
    assert call(asked, "claim", **{**claim, "claim_id": "two"}).json()["assignments"][0]["key"]["attempt"] == 2


BAD_CALLS: Final[list[tuple[str, dict[str, Any], int]]] = [
    ("join", {"offer": {"owner": "somebody", "host": "h"}}, 422),
    ("join", {"offer": {"owner": WORKER, "host": "h", "lease_seconds": 1e9}}, 422),
    ("join", {"offer": {"owner": WORKER, "host": "h\0"}}, 422),
    ("claim", {"slots": 0, "claim_id": "x"}, 422),
    ("started", {"key": {"run_id": "run_unknown", "attempt": 1}}, 409),
    ("events", {"key": {"run_id": "r", "attempt": 1}, "first_seq": 1, "lines": ["nonsense"]}, 422),
    ("events", {"key": {"run_id": "r", "attempt": 1}, "first_seq": 1, "lines": ["\ud800"]}, 422),
    ("terminal", {"key": {"run_id": "r", "attempt": 1}, "seq": 1, "line": "{}"}, 422),
    ("heartbeat", {"held": [{"run_id": "", "attempt": 0}]}, 422),
]


@pytest.mark.parametrize(("name", "fields", "status"), BAD_CALLS)
def test_a_bad_call_of_a_worker_is_refused(share: Serve, name: str, fields: dict[str, Any], status: int) -> None:
    server = share("--no-worker")
    assert call(server, "join", offer={"owner": WORKER, "host": "elsewhere"}).status_code == 200
    content = json.dumps({"worker_id": WORKER, **fields})
    answer = server.client.post(f"/worker/{name}", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"]
    call(server, "leave")


def test_a_run_that_names_no_folder_uses_that_of_its_worker(
    serve: Serve, place: StorePlace, start_worker: StartWorker, tmp_path: Path
) -> None:
    own, named = tmp_path / "of-the-server", tmp_path / "named"
    own.mkdir()
    named.mkdir()
    server = serve("--no-worker", "--project-dir", str(own), home=place.home / "home", store=place.url)
    start_worker(server)
    for more, folder in (({}, EXAMPLES / "echo"), ({"project_dir": str(named)}, named)):
        run = started(server, tmp_path, profile=SHOWS_ITS_INVOCATION, **more)
        server.ended(run["run_id"])
        result = server.client.get(f"/sessions/{run['session_id']}/result").raise_for_status().json()
        assert json.loads(result["result_text"])["project_dir"] == str(folder)


def test_the_worker_beside_the_server_imports_nothing_from_the_current_folder(tmp_path: Path) -> None:
    """An agent may have written there."""
    (tmp_path / "ao_runner.py").write_text("open('imported', 'w')\n")

    with Served(tmp_path / "home", folder=tmp_path) as server:
        server.add_agent(json.loads((EXAMPLES / "echo/blueprint.json").read_text()))
        server.ended(server.start("echo", {"message": "hello"})["run_id"])

    assert not (tmp_path / "imported").exists()
