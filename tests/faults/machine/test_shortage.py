"""A machine that is short of something. Each run ends with a reason, and the next one begins as if nothing had been."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ao_protocol.events import Failure
from tests.process.lifeline.leftovers import processes_in
from tests.process.runner.performing import check_whole, perform

ROOT = Path(__file__).parents[3]
SECONDS = 60
AS_SOMEBODY_ELSE = ("setpriv", "--clear-groups", "--bounding-set", "-sys_resource,-sys_admin", "--ruid")
"""Root may start as many processes as it likes; with another real user and without these rights it may not."""


def ends_of_runs(folder: Path, script: str, *arguments: str, prefix: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Have a script perform runs, and return how each ended: its error's type and message, or `result`."""
    argv = [*prefix, sys.executable, "-m", f"tests.faults.machine.{script}", str(folder), *arguments]
    done = subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.PIPE, timeout=SECONDS)
    assert processes_in(folder, 2.0) == []
    return [(error_type, message) for error_type, message in json.loads(done.stdout)]


@pytest.mark.parametrize("since", ["begun", "described", "orphaned"])
def test_wherever_descriptors_run_out_the_run_ends_and_the_next_is_unharmed(since: str, tmp_path: Path) -> None:
    *short, enough = ends_of_runs(tmp_path, "runs_short_of_descriptors", since)

    assert len(short) > 5
    assert {error_type for error_type, _ in short} == {"resource_exhausted"}
    assert all(os.strerror(errno.EMFILE) in message for _, message in short)
    assert enough == ("result", "")


def test_wherever_processes_run_out_the_run_ends_and_the_next_is_unharmed(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become a user whose processes nobody else adds to")
    if shutil.which(AS_SOMEBODY_ELSE[0]) is None:
        pytest.skip(f"{AS_SOMEBODY_ELSE[0]} is not there, which starts a program as another user; util-linux has it")
    user = str(1_000_000 + os.getpid())

    *short, enough = ends_of_runs(tmp_path, "runs_short_of_processes", prefix=(*AS_SOMEBODY_ELSE, user))

    assert len(short) > 2
    assert {error_type for error_type, _ in short} == {"resource_exhausted"}
    assert all(os.strerror(errno.EAGAIN) in message for _, message in short)
    assert enough == ("result", "")


UNSTARTABLE: dict[str, tuple[bytes, int, str]] = {
    "no program": (b"\x7fELF is all that it has", 0o755, "Exec format error; its first line must name an interpreter"),
    "no run bit": (b"#!/bin/sh\n", 0o644, "Permission denied; make it executable: chmod +x"),
    "no interpreter": (b"#!/no/such/interpreter\n", 0o755, "it, or the interpreter that its first line names"),
}


@pytest.mark.parametrize("name", UNSTARTABLE)
def test_a_file_that_the_system_does_not_start_is_told_with_what_to_do(name: str, tmp_path: Path) -> None:
    content, mode, words = UNSTARTABLE[name]
    executable = tmp_path / "ao-broken-exec"
    executable.write_bytes(content)
    executable.chmod(mode)

    performed = perform("broken", tmp_path, executor_path=executable)

    assert isinstance(performed.terminal, Failure)
    assert (performed.terminal.error.type, performed.terminal.error.side_effects) == ("executor_not_found", "none")
    assert words in performed.terminal.error.message
    check_whole(performed)


DESCRIBES_AND = """#!/bin/sh
[ "$1" = describe ] || exit 1
echo '{{"schema_versions":["3.0"],"executor":{{"name":"passing","version":"1"}}}}'
{deed}
"""
PASSING = {
    "executable": ('chmod -x "$0"', "executor_not_found", "Permission denied; make it executable: chmod +x"),
    "project": ("rmdir {project}", "workspace_error", "its working folder: No such file or directory"),
}


@pytest.mark.parametrize("what", PASSING)
def test_what_is_gone_between_describe_and_start_is_named(what: str, tmp_path: Path) -> None:
    deed, error_type, words = PASSING[what]
    executable = tmp_path / "ao-passing-exec"
    executable.write_text(DESCRIBES_AND.format(deed=deed.format(project=tmp_path / "project")))
    executable.chmod(0o755)

    performed = perform("passing", tmp_path, executor_path=executable)

    assert isinstance(performed.terminal, Failure)
    assert (performed.terminal.error.type, performed.terminal.error.side_effects) == (error_type, "none")
    assert words in performed.terminal.error.message
    check_whole(performed)
