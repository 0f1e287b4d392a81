"""`ao worker`, as whoever watches it sees it."""

import json
import subprocess
from http.client import HTTPConnection

from tests.runner.cli.calling import SECONDS, Ao, miniature

SECRET = "a-key-that-nobody-may-see"


def test_it_shows_what_it_does_and_no_secret(ao: Ao) -> None:
    argv = ao.argv("worker", "--metrics-port", "0", "--log-format", "json")
    environment = ao.environment() | {"MINIATURE_KEY": SECRET}
    with subprocess.Popen(argv, cwd=ao.folder, env=environment, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stderr is not None
        begins, served = (json.loads(worker.stderr.readline()) for _ in range(2))
        ao("submit", "agent.yaml", "-p", "x", "--profile", miniature("tells_its_secret"), "--wait")
        port = int(served["address"].partition("127.0.0.1:")[2].partition("/")[0])
        metrics, health = (asked(port, path) for path in ("/metrics", "/healthz"))
        worker.terminate()
        rest = worker.communicate(timeout=SECONDS)[1]

    assert worker.returncode == 0
    lines = [json.loads(line) for line in rest.splitlines()]
    began, ended = (next(line for line in lines if line["event"] == event) for event in ("run begins", "run ended"))
    for told in (began, ended):
        assert told["worker"] == begins["worker"]
        assert told["session_id"].startswith("ses_")
        assert told["attempt"] == 1
    assert (ended["run_id"], ended["outcome"], ended["level"]) == (began["run_id"], "failed", "warning")
    assert (ended["launched"], ended["exit_code"], ended["problems"]) == ("cold", 1, 1)
    assert set(ended["seconds"]) == {"queued", "described", "spawned", "first_event", "terminal", "reaped"}
    assert "ao_worker_runs_total{" in metrics
    assert health == "working\n"
    assert SECRET not in rest + metrics


def asked(port: int, path: str) -> str:
    connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request("GET", path)
    answer = connection.getresponse().read().decode()
    connection.close()
    return answer
