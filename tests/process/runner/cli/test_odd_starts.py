"""Starts in places that nobody planned for: each is told in a sentence, with the exit code that scripts rely on."""

import errno
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.process.runner.cli.calling import SECONDS, Ao, Called


def called(ao: Ao, *arguments: str, **how: object) -> Called:
    done = subprocess.run(  # type: ignore[call-overload]
        ao.argv(*arguments),
        **{"cwd": ao.folder, "env": ao.environment(), **how},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return Called(done.returncode, done.stdout, done.stderr)


def test_a_current_directory_that_is_gone_is_told(ao: Ao, tmp_path: Path) -> None:
    blueprint = ao.folder / "agent.yaml"
    gone = tmp_path / "gone"
    gone.mkdir()

    done = called(ao, "run", str(blueprint), "-p", "hi", "--executor", "echo", cwd=gone, preexec_fn=gone.rmdir)

    assert done.exit_code == 1
    assert done.stderr == "Error: the current directory no longer exists; change to another one\n"


@pytest.mark.parametrize("command", [("worker", "--until-idle"), ("runs",)], ids=["worker", "runs"])
def test_a_home_that_cannot_be_made_is_told_and_not_tried_again_by_a_service(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()

    done = called(Ao(tmp_path), *command, "--home", str(tmp_path / "file" / "home"))

    assert done.exit_code == 2
    assert done.stderr.startswith(f"Error: cannot use {tmp_path / 'file' / 'home'}/")
    assert "Not a directory" in done.stderr


@pytest.mark.parametrize(
    "command",
    [("worker", "--until-idle"), ("run", "agent.yaml", "-p", "hi", "--executor", "echo")],
    ids=["worker", "run"],
)
def test_a_containment_that_is_none_is_refused_before_anything_starts(command: tuple[str, ...], ao: Ao) -> None:

    done = ao(*command, AO_CONTAINMENT="lifelines")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: the variable AO_CONTAINMENT is 'lifelines', expected one of cgroup, lifeline, process_group; "
        "correct it, or unset it for the best\n"
    )
    assert ao("sessions", "--json").document == []


def test_an_empty_containment_counts_as_not_set(ao: Ao) -> None:

    done = ao("run", "agent.yaml", "-p", "hi", "--executor", "echo", AO_CONTAINMENT="")

    assert (done.exit_code, done.stdout) == (0, "hi\n")


def test_a_project_folder_that_no_line_can_name_is_refused(ao: Ao, tmp_path: Path) -> None:
    blueprint = ao.folder / "agent.yaml"
    folder = os.fsdecode(b"odd\xff")
    (tmp_path / folder).mkdir()

    done = called(ao, "run", str(blueprint), "-p", "hi", "--executor", "echo", "--project-dir", folder)

    assert done.exit_code == 2
    assert done.stderr.startswith("ao: argument 8: byte 3 is not UTF-8")


def test_a_blueprint_may_come_through_a_pipe(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"name: agent\n")
    os.close(writer)

    done = called(Ao(tmp_path), "run", f"/dev/fd/{reader}", "-p", "hi", "--executor", "echo", pass_fds=[reader])
    os.close(reader)

    assert (done.exit_code, done.stdout) == (0, "hi\n")


def test_ctrl_c_before_a_run_begins_means_cancelled(tmp_path: Path) -> None:
    ao = Ao(tmp_path)
    os.mkfifo(tmp_path / "agent.yaml")
    argv = ao.argv("run", "agent.yaml", "-p", "hi")
    with subprocess.Popen(argv, cwd=tmp_path, env=ao.environment(), stderr=subprocess.PIPE, text=True) as process:
        with reading(tmp_path / "agent.yaml"):
            process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=SECONDS)  # if the signal came just before the read, its end shows it

    assert (process.returncode, stderr) == (130, "")


@contextmanager
def reading(fifo: Path) -> Iterator[None]:
    """Wait until somebody reads from a pipe, and keep the reader waiting inside the `with` block."""
    until = time.monotonic() + SECONDS
    while True:
        try:
            writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO or time.monotonic() > until:
                raise
        else:
            break
    yield
    os.close(writer)
