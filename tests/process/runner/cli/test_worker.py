"""`ao worker`, as whoever watches it sees it."""

import json
import subprocess
from http.client import HTTPConnection

import pytest

from tests.process.runner.cli.calling import SECONDS, Ao, miniature

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
    assert (begins["coordinator"], begins["store"]) == ("store", "local")
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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(["--profile", "ahead"], "it cannot be started: No such file or directory", id="a parked process"),
        pytest.param(
            ["--profile", "plain", "--coordinator", "http://127.0.0.1:9"],
            "it cannot be started: No such file or directory",
            id="the type that a server is told",
        ),
        pytest.param(
            ["--coordinator", "local"], "the queue in --store is called store", id="the store by another word"
        ),
        pytest.param(["--profile", "~nobody-of-that-name/x.yaml"], "~nobody-of-that-name", id="a folder of nobody"),
    ],
)
def test_what_cannot_work_is_told_in_a_sentence_and_nothing_is_done(ao: Ao, options: list[str], words: str) -> None:
    ao.write("ao-broken-exec", "#!/nowhere/python\n").chmod(0o755)
    (ao.folder / "ao-home" / "profiles").mkdir(parents=True)
    ao.write("ao-home/profiles/plain.yaml", f"executor: {ao.folder}/ao-broken-exec\n")
    ao.write("ao-home/profiles/ahead.yaml", f"executor: {ao.folder}/ao-broken-exec\nwarm: {{size: 1}}\n")

    called = ao("worker", "--until-idle", *options)

    assert called.exit_code == 2
    assert words in called.stderr
    assert "Traceback" not in called.stderr


def asked(port: int, path: str) -> str:
    connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request("GET", path)
    answer = connection.getresponse().read().decode()
    connection.close()
    return answer
