"""What lives on the machine after the suite: nothing, whatever an executor starts and however the suite ends."""

import subprocess
from pathlib import Path

import pytest

from ao_conformance.suite import Plan, run_suite
from ao_conformance.vectors import load_process_vectors
from tests.process.executors.driver import installed, wait_until

AO = installed("ao")
BASH = Path(__file__).parents[2] / "executors/examples/bash/ao-bash-exec"
HIDDEN = "env -i {setsid} sh -c 'cd /; echo $$ >>{pids}; exec {sleep} 1000' </dev/null >/dev/null 2>&1 &"
"""A daemon without the environment, the folder, the group and the descriptors of the executor."""


def executor(folder: Path, before: str) -> Path:
    program = folder / "ao-hiding-exec"
    program.write_text(f'#!/bin/sh\n[ "$1" = describe ] && exec {BASH} describe\n{before}\nexec {BASH} "$@"\n')
    program.chmod(0o755)
    return program


def living(pids: Path) -> list[str]:
    return [pid for pid in pids.read_text().split() if Path("/proc", pid).exists()]


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    return tmp_path / "pids"


@pytest.fixture
def hiding(tmp_path: Path, pids: Path) -> Path:
    return executor(tmp_path, HIDDEN.format(setsid="/usr/bin/setsid", sleep="/bin/sleep", pids=pids))


@pytest.mark.requirement("AOX-194")
def test_a_daemon_with_an_environment_of_its_own_is_found_and_ended(hiding: Path, pids: Path) -> None:
    vectors = [vector for vector in load_process_vectors() if vector.id == "start"]

    (told,) = run_suite(Plan((str(hiding),), vectors=vectors)).vectors

    assert [finding.requirement for finding in told.findings][-1:] == ["AOX-194"]
    assert "sleep 1000" in told.findings[-1].found
    assert living(pids) == []


def test_a_suite_that_is_killed_leaves_no_process(tmp_path: Path, pids: Path) -> None:
    hidden = HIDDEN.format(setsid="/usr/bin/setsid", sleep="/bin/sleep", pids=pids)
    hanging = executor(tmp_path, f"{hidden}\ntrap '' TERM\nread -r asked\necho $$ >>{pids}\nsleep 1000\n")
    argv = [AO, "conformance", "run", "--only", "start", "--", str(hanging)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as suite:
        wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        suite.kill()

    wait_until(lambda: living(pids) == [])
