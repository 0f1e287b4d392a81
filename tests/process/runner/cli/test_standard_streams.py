"""`ao` works with whichever of its standard streams closed, full or impatient."""

import fcntl
import json
import os
import subprocess
import termios
from pathlib import Path

import pytest

from tests.process.executors.driver import wait_until
from tests.process.lifeline.leftovers import processes_in
from tests.process.runner.cli.calling import SECONDS, Ao, miniature


@pytest.mark.parametrize("closed", ["2>&-", "0<&- 2>&-", "0<&- 1>&- 2>&-"])
def test_a_run_ends_well_with_closed_streams(ao: Ao, closed: str) -> None:
    run = ao.argv("run", "agent.yaml", "-p", "x", "--executor", miniature("answers_at_once"))

    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *run],
        cwd=ao.folder, env=ao.environment(), stdout=subprocess.PIPE, timeout=SECONDS, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (0, b"" if "1>&-" in closed else b"x\n")
    assert ao("result", "last").exit_code == 0


def test_events_for_a_closed_stdout_go_nowhere_else_and_the_worker_says_so(ao: Ao) -> None:
    agent = ao.folder / "agent.yaml"
    command = ao.argv("worker", "--coordinator", "stdout", "--profile", miniature("answers_at_once"))

    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" 1>&-', "sh", *command],
        cwd=ao.folder, env=ao.environment(), input=json.dumps({"blueprint": str(agent), "prompt": "x"}),
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert "it is closed" in done.stderr


def run_into_a_full_device(
    ao: Ao, stream: str, name: str, *options: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a miniature with stdout or stderr on a device that takes nothing."""
    argv = ao.argv("run", "agent.yaml", "-p", "x", "--executor", miniature(name), *options)
    with Path("/dev/full").open("wb") as full:
        return subprocess.run(
            argv,
            cwd=ao.folder,
            env=ao.environment() | variables,
            stdout=full if stream == "stdout" else subprocess.PIPE,
            stderr=full if stream == "stderr" else subprocess.PIPE,
            text=True,
            timeout=SECONDS,
            check=False,
        )


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    ("name", "options", "status"),
    [
        pytest.param("works_for_ever", ["--events"], "cancelled", id="events"),
        pytest.param("answers_at_once", ["--json"], "completed", id="json"),
        pytest.param("answers_at_once", [], "completed", id="the result"),
    ],
)
def test_what_stdout_does_not_take_is_told_once_and_the_run_is_kept(
    name: str, options: list[str], status: str, unbuffered: str, ao: Ao
) -> None:
    done = run_into_a_full_device(ao, "stdout", name, *options, PYTHONUNBUFFERED=unbuffered)

    assert done.returncode == 1
    assert done.stderr.count("stdout cannot be written: No space left on device") == 1
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert ao("sessions", "--json").document[0]["runs"][0]["status"] == status
    assert processes_in(ao.folder) == []


def test_progress_that_stderr_does_not_take_leaves_the_result_as_it_is(ao: Ao) -> None:
    done = run_into_a_full_device(ao, "stderr", "answers_at_once")

    assert (done.returncode, done.stdout) == (0, "x\n")


@pytest.mark.parametrize("options", [["--json"], []], ids=["json", "the result"])
def test_a_stdout_that_was_made_not_to_wait_gets_all_of_it(options: list[str], ao: Ao) -> None:
    text = "x" * 300_000
    ao.write("prompt.txt", text)
    argv = ao.argv("run", "agent.yaml", "-p", "-", "--executor", miniature("answers_at_once"), *options)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with (
        (ao.folder / "prompt.txt").open("rb") as prompt,
        subprocess.Popen(
            argv, cwd=ao.folder, env=ao.environment(), stdin=prompt, stdout=writing, stderr=subprocess.DEVNULL
        ) as process,
    ):
        os.close(writing)
        wait_until(lambda: unread_bytes(reading) > 60_000)
        with open(reading, "rb") as stream:  # noqa: PTH123  # a descriptor
            read = stream.read().decode()
        assert process.wait(SECONDS) == 0

    assert (json.loads(read)["result_text"] if options else read.rstrip("\n")) == text


def unread_bytes(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), "little")
