"""`ao run` notices that its parent was killed, although its executor says nothing: its output has no reader then."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.process.executors.driver import wait_until
from tests.process.lifeline.leftovers import ends, processes_in
from tests.process.runner.cli.calling import SECONDS, Ao, miniature

notices = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the next line shows it, and these say nothing")

PARENT = """
import socket, subprocess, sys
kind, log, *argv = sys.argv[1:]
ours, theirs = (None, None)
if kind == "socket":
    ours, theirs = socket.socketpair()
    ours.shutdown(socket.SHUT_WR)  # a half-open socket still has its reader
target = {"pipe": subprocess.PIPE, "socket": theirs, "file": open(log, "wb"), "null": subprocess.DEVNULL}[kind]
errors = subprocess.STDOUT if "--both" in argv else None
child = subprocess.Popen([one for one in argv if one != "--both"], stdout=target, stderr=errors)
if theirs is not None:
    theirs.close()
print(child.pid, flush=True)
child.wait()
"""


@pytest.fixture
def ao(tmp_path: Path) -> Ao:
    ao = Ao(tmp_path)
    ao.write("agent.yaml", "name: agent\n")
    return ao


@contextmanager
def parent_of(ao: Ao, kind: str, executor: str, *options: str) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """Start a process that starts a run and reads its output, wait for the run, and give both."""
    argv = ao.argv("run", "agent.yaml", "-p", "x", "--executor", miniature(executor), *options)
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, kind, str(ao.folder / "log"), *argv],
        cwd=ao.folder, env=ao.environment(), stdout=subprocess.PIPE,
    ) as parent:  # fmt: skip
        try:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            wait_until(lambda: begun(ao))
            yield parent, child
        finally:
            parent.kill()


def begun(ao: Ao) -> bool:
    """Return whether a run has an event of its executor."""
    said = ao("events", "last")
    return said.exit_code == 0 and "run_started" in said.stdout


@notices
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "options", "executor"),
    [
        ("pipe", ["--events"], "survives_everything"),
        ("pipe", ["--both"], "ignores_cancel"),
        ("socket", ["--json"], "ignores_cancel"),
    ],
    ids=["events to a pipe", "the result to a pipe", "JSON to a socket"],
)
def test_a_killed_parent_leaves_no_process_and_an_ended_run(
    kind: str, options: list[str], executor: str, ao: Ao
) -> None:
    with parent_of(ao, kind, executor, *options) as (parent, child):
        parent.kill()
        parent.wait(SECONDS)

        assert ends(child, SECONDS)

    assert processes_in(ao.folder, 0.0) == []
    run = ao("result", "last", "--record").document
    # Not SIGTERM, which the longer steps of a run with a reader would have reached: see LAST_SECONDS.
    assert (run["status"], run["record"]["exit_code"]) == ("cancelled", -signal.SIGKILL)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["file", "null"])
def test_a_run_that_writes_elsewhere_goes_on_without_its_parent(kind: str, ao: Ao) -> None:
    with parent_of(ao, kind, "works_for_ever", "--events") as (parent, child):
        parent.kill()
        parent.wait(SECONDS)
        heard = len(ao("events", "last").stdout.splitlines())
        wait_until(lambda: len(ao("events", "last").stdout.splitlines()) > heard + 3)

        os.kill(child, signal.SIGTERM)
        assert ends(child, SECONDS)

    assert json.loads(ao("result", "last", "--json").stdout)["status"] == "cancelled"


@notices
def test_a_silent_run_ends_when_its_reader_is_gone(ao: Ao) -> None:
    """The same in one process less, for every suite."""
    ours, theirs = socket.socketpair()
    argv = ao.argv("run", "agent.yaml", "-p", "x", "--executor", miniature("ignores_cancel"), "--events")
    with subprocess.Popen(argv, cwd=ao.folder, env=ao.environment(), stdout=theirs.fileno()) as process:
        theirs.close()
        assert b"run_started" in ours.recv(65536)
        ours.close()
        assert process.wait(SECONDS) == 130

    assert processes_in(ao.folder) == []


FORKING_PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen(sys.argv[1:] + [str(os.getpid())], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdin.write(sys.stdin.buffer.read())
child.stdin.close()
holder = os.fork()
if holder == 0:
    time.sleep(1000)
print(child.pid, holder, flush=True)
child.wait()
"""


@pytest.mark.thorough
@notices
def test_an_asked_run_ends_with_its_parent_although_a_fork_of_that_holds_the_pipe(ao: Ao) -> None:
    argv = [sys.executable, "-c", FORKING_PARENT, sys.executable, "-m", "ao_runner.cli.asked_run"]
    order = {"blueprint": "agent.yaml", "prompt": "x", "profile": miniature("ignores_cancel")}
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=ao.folder, env=ao.environment(), stdin=pipe, stdout=pipe) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(json.dumps(order).encode())
        parent.stdin.close()
        child, holder = map(int, parent.stdout.readline().split())
        try:
            wait_until(lambda: begun(ao))
            parent.kill()
            assert ends(child, SECONDS)
        finally:
            os.kill(holder, signal.SIGKILL)

    assert processes_in(ao.folder) == []
    assert ao("result", "last", "--json").document["status"] == "cancelled"


@pytest.mark.thorough
@notices
def test_a_worker_on_a_pipe_ends_with_its_parent_although_its_runs_are_silent(ao: Ao) -> None:
    agent = ao.folder / "agent.yaml"
    argv = ao.argv("worker", "--coordinator", "stdout", "--profile", miniature("ignores_cancel"))
    line = json.dumps({"blueprint": str(agent), "prompt": "x"}).encode() + b"\n"
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=ao.folder, env=ao.environment(), stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line)
        process.stdin.flush()
        assert b"run_started" in process.stdout.readline()
        process.stdin.close()
        process.stdout.close()
        assert process.wait(SECONDS) == 2

    assert processes_in(ao.folder) == []


@pytest.mark.thorough
def test_who_follows_a_silent_run_leaves_when_nobody_reads_any_more(ao: Ao) -> None:
    with parent_of(ao, "null", "ignores_cancel", "--events") as (parent, child):
        follow = [ao.argv("events", "last", "--follow"), ao.argv("events", "last", "--follow", "--text")]
        for argv in follow:
            with subprocess.Popen(argv, cwd=ao.folder, env=ao.environment(), stdout=subprocess.PIPE) as follower:
                assert follower.stdout is not None
                follower.stdout.readline()
                follower.stdout.close()
                assert follower.wait(SECONDS) == 1
        assert parent.poll() is None
        os.kill(child, signal.SIGKILL)
        parent.wait(SECONDS)
