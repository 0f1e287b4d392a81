"""A worker as docs/container/worker.yaml starts it in a pod: its probes, and what SIGTERM does, with a real server."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.postgres_server import PostgresServer
from tests.process.executors.driver import wait_until
from tests.process.runner.cli.calling import SECONDS, Ao

MANIFEST = Path(__file__).parents[4] / "docs" / "container" / "worker.yaml"
EXECUTOR = """#!/usr/bin/env bash
if [[ ${1-} == describe ]]; then
  echo '{"schema_versions":["3.0"],"executor":{"name":"holding","version":"1"}}'
  exit
fi
read -r invocation
echo '{"event_type":"run_started"}'
if [[ $invocation == *'"hold"'* ]]; then read -r < hold; fi
echo '{"event_type":"result","result_text":"done"}'
"""


@pytest.fixture
def store(postgres: PostgresServer) -> str:
    return postgres.new_database()


@pytest.fixture
def ao(tmp_path: Path) -> Ao:
    """A folder with an agent that waits for a line in the pipe `hold` if its prompt is that word."""
    ao = Ao(tmp_path)
    ao.write("agent.yaml", "name: agent\n")
    ao.write("ao-holding-exec", EXECUTOR).chmod(0o755)
    os.mkfifo(tmp_path / "hold")
    return ao


def container() -> Any:
    deployment = list(yaml.safe_load_all(MANIFEST.read_text()))[1]
    return deployment["spec"]["template"]["spec"]["containers"][0]


class Pod:
    """A worker with the arguments of the manifest, and the profile of its ConfigMap with another executor."""

    def __init__(self, ao: Ao, store: str, name: str) -> None:
        config_map = next(yaml.safe_load_all(MANIFEST.read_text()))
        profile = yaml.safe_load(config_map["data"]["claude-code.yaml"]) | {
            "executor": str(ao.folder / "ao-holding-exec")
        }
        folder = ao.folder / name
        (folder / "..2026_11_25").mkdir(parents=True)
        (folder / "..2026_11_25" / "claude-code.yaml").write_text(yaml.safe_dump(profile))
        (folder / "..data").symlink_to("..2026_11_25")  # as a mounted ConfigMap is
        (folder / "claude-code.yaml").symlink_to("..data/claude-code.yaml")
        environment = ao.environment() | {"AO_STORE": store, "AO_HOST": name, "AO_PROFILES": str(folder)}
        environment["AO_HOME"] = str(folder / "home")
        arguments = ["0" if argument == "9464" else argument for argument in container()["args"]]
        self._log = folder / "log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(ao.argv(*arguments), cwd=ao.folder, env=environment, stderr=log)
        self.port = self.line_of("metrics are served")["address"].rpartition(":")[2].removesuffix("/metrics")

    def line_of(self, event: str) -> Any:
        """Wait for the line of the log about an event, and return it."""
        mark = f'"event": "{event}"'
        wait_until(lambda: mark in self._log.read_text() or self.process.poll() is not None, SECONDS)
        log = self._log.read_text()
        assert mark in log, log
        return json.loads(next(line for line in log.splitlines() if mark in line))

    def probe(self, name: str) -> bool:
        """Tell whether a probe of the manifest succeeds."""
        command = [part.replace("9464", self.port) for part in container()[name]["exec"]["command"]]
        return subprocess.run(command, check=False, capture_output=True, timeout=SECONDS).returncode == 0


@contextmanager
def pod(ao: Ao, store: str, name: str) -> Iterator[Pod]:
    """Keep a pod until the end of the block, where its process is killed if it is still there."""
    started = Pod(ao, store, name)
    with started.process:
        try:
            yield started
        finally:
            started.process.kill()


def submit(ao: Ao, store: str, prompt: str, *options: str) -> Any:
    submitted = ao("submit", "agent.yaml", "-p", prompt, "--profile", "claude-code", *options, AO_STORE=store)
    assert submitted.exit_code == 0, submitted.stderr
    return submitted.stdout.strip()


def test_a_pod_that_is_deleted_finishes_its_run_and_another_pod_takes_the_next_one(ao: Ao, store: str) -> None:
    with pod(ao, store, "worker-a") as a:
        held = submit(ao, store, "hold")
        a.line_of("run begins")
        assert (a.probe("readinessProbe"), a.probe("livenessProbe")) == (True, True)

        a.process.terminate()
        a.line_of("draining")
        assert (a.probe("readinessProbe"), a.probe("livenessProbe")) == (False, True)
        with pod(ao, store, "worker-b"):
            assert submit(ao, store, "hi", "--wait") == "done"
            assert a.process.poll() is None
            (ao.folder / "hold").write_text("go on\n")
            assert a.process.wait(SECONDS) == 0

    next_one, first = ao("runs", "--json", AO_STORE=store).document
    assert first["run_id"] == held
    assert [(run["status"], run["attempt"]) for run in (first, next_one)] == [("completed", 1)] * 2
    assert first["owner"] != next_one["owner"]


def test_the_second_sigterm_cancels_the_run_in_time_for_the_kill(ao: Ao, store: str) -> None:
    with pod(ao, store, "worker-a") as a:
        held = submit(ao, store, "hold")
        a.line_of("run begins")
        a.process.send_signal(signal.SIGTERM)
        a.line_of("draining")
        a.process.send_signal(signal.SIGTERM)
        assert a.process.wait(SECONDS) == 130

    assert ao("result", held, "--json", AO_STORE=store).document["status"] == "cancelled"
