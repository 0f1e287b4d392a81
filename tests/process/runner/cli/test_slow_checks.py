"""A run whose parameters or answer take long to check, in a worker that performs other runs."""

import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.process.runner.cli.calling import SECONDS, Ao, miniature
from tests.process.runner.cli.test_worker import asked
from tests.unit.protocol.contracts.test_slow_checks import LOOKING_AHEAD, conditions

MAX_ANSWER_SECONDS = 10.0
"""Twenty times the promise, for a busy machine. Without a bound, checks took 27 to 77 s."""
CONDITIONS = conditions(2000)
BELOW = {"allOf": CONDITIONS["allOf"]}
TERMINAL = frozenset({"result", "failure"})


class Lines:
    """A worker that performs lines of its stdin."""

    def __init__(self, worker: "subprocess.Popen[bytes]", port: int) -> None:
        self._worker = worker
        self._port = port
        self._unread = b""

    def last_events(self, *runs: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the last event of each run, in the order of their ends; until then the worker answers in time."""
        assert self._worker.stdin is not None
        self._worker.stdin.write(b"".join(json.dumps(run).encode() + b"\n" for run in runs))
        self._worker.stdin.flush()
        ended: dict[str, dict[str, Any]] = {}
        until = time.monotonic() + SECONDS
        while len(ended) < len(runs):
            began_at = time.monotonic()
            assert asked(self._port, "/healthz") == "working\n"
            assert time.monotonic() - began_at < MAX_ANSWER_SECONDS
            assert began_at < until
            ended |= {event["run_id"]: event for event in self._events() if event["event_type"] in TERMINAL}
        return ended

    def _events(self) -> list[dict[str, Any]]:
        assert self._worker.stdout is not None
        if select.select([self._worker.stdout], [], [], 0.02)[0]:
            self._unread += os.read(self._worker.stdout.fileno(), 65536)
        *lines, self._unread = self._unread.split(b"\n")
        return [json.loads(line) for line in lines]


@pytest.fixture
def worker(ao: Ao) -> Iterator[Lines]:
    options = ("--coordinator", "stdout", "--profile", miniature("answers_at_once"), "--metrics-port", "0")
    streams: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    argv = ao.argv("worker", *options, "--log-format", "json")
    with subprocess.Popen(argv, cwd=ao.folder, env=ao.environment(), **streams) as process:
        try:
            assert process.stderr is not None
            served = next(json.loads(line) for line in process.stderr if b"metrics are served" in line)
            yield Lines(process, int(served["address"].partition("127.0.0.1:")[2].partition("/")[0]))
        finally:
            process.terminate()
            process.communicate(timeout=SECONDS)


def with_parameters(schema: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    return {"run_id": "slow", "blueprint": {"name": "b", "parameters_schema": schema}, "parameters": parameters}


NEIGHBOUR = {"run_id": "neighbour", "blueprint": "agent.yaml", "prompt": "hi"}


def test_parameters_that_a_pattern_takes_too_long_to_match_are_refused_and_others_run(worker: Lines) -> None:
    schema = {"type": "object", "properties": {"z": {"pattern": LOOKING_AHEAD}}}

    ended = worker.last_events(with_parameters(schema, {"z": "a" * 1_000_000}), NEIGHBOUR)

    assert list(ended) == ["neighbour", "slow"]
    assert ended["slow"]["error"]["type"] == "parameters_validation_failed"
    assert "it took longer than 10 s; give a shorter value" in ended["slow"]["error"]["message"]


def test_a_chain_of_two_thousand_conditions_holds_up_nobody(worker: Lines) -> None:
    schema = {"definitions": CONDITIONS["definitions"], "type": "object", "properties": {"w": BELOW}}

    ended = worker.last_events(with_parameters(schema, {"w": []}), NEIGHBOUR)

    assert ended["slow"]["error"]["type"] == "parameters_validation_failed"
    assert "for reasons that take too many steps to find" in ended["slow"]["error"]["message"]
