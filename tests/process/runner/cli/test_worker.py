"""`ao worker`, as whoever watches it sees it."""

import asyncio
import json
import subprocess
from http.client import HTTPConnection

import pytest

from ao_runner.cli.worker_command import KEPT, worker_command
from tests.foreign_coordinator.server import ForeignCoordinator
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


def test_every_option_says_with_which_coordinators_it_has_an_effect() -> None:
    assert {option.name for option in worker_command.params} == set(KEPT)


@pytest.mark.parametrize(
    ("coordinator", "options", "words"),
    [
        ("stdout", ["--tag", "x"], "--tag: it has no effect with stdout"),
        ("store", ["--agents", "."], "--agents: it has no effect with store"),
        ("http", ["--lease", "60"], "--lease: it has no effect with a coordinator without leases; leave it out"),
        (
            "http",
            ["--profile", "echo", "--profile", "scripted"],
            "found 2; start ao worker --coordinator http://127.0.0.1:{port} --profile echo; ao worker",
        ),
    ],
)
async def test_an_option_without_effect_is_refused(ao: Ao, coordinator: str, options: list[str], words: str) -> None:
    async with ForeignCoordinator() as server:
        place = server.url if coordinator == "http" else coordinator
        called = await asyncio.to_thread(ao, "worker", "--coordinator", place, *options)
        assert called.exit_code == 2
        assert words.format(port=server.port) in " ".join(called.stderr.split())
        assert server.state.runners == {}


async def test_a_server_is_told_the_tags_of_the_profile_and_those_of_the_command_line(ao: Ao) -> None:
    (ao.folder / "ao-home" / "profiles").mkdir(parents=True)
    ao.write("ao-home/profiles/tagged.yaml", "executor: echo\ntags: [alpha, beta]\n")
    async with ForeignCoordinator() as server:
        server.state.enqueue("run_1", "ses_1", demands={"executor_type": "autonomous", "tags": ["alpha", "gamma"]})
        told: list[list[str]] = []
        server.on_request = lambda _: told.extend(one["tags"] for one in server.state.runners.values())
        options = ("--profile", "tagged", "--tag", "beta", "--tag", "gamma", "--until-idle")
        called = await asyncio.to_thread(ao, "worker", "--coordinator", server.url, *options)
        assert called.exit_code == 0
        assert told[0][:3] == ["alpha", "beta", "gamma"]
        assert server.state.runs["run_1"]["status"] == "completed"


def asked(port: int, path: str) -> str:
    connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request("GET", path)
    answer = connection.getresponse().read().decode()
    connection.close()
    return answer
