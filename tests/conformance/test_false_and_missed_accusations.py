"""What the suite once said of good executors, and what it did not see of broken ones."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ao_conformance.driver.leftovers import named_processes
from ao_conformance.driver.transcript import OutputLine
from ao_conformance.judging.output import read_output
from ao_conformance.judging.runs import judge_heartbeats
from ao_conformance.suite import Plan, run_suite
from ao_conformance.vectors import load_process_vectors
from ao_conformance.verdict import VectorResult, Verdict
from tests.conformance.mutation import EXECUTABLE, REFERENCE
from tests.process.executors.homemade import homemade

WORKS_FIRST = """\
import os, sys, time
while time.process_time() < 2:
    pass
os.execv(sys.argv[1], sys.argv[1:])
"""
HAS_A_CHILD_THAT_POLLS = """\
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "while True: pass"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
os.execv(sys.argv[1], sys.argv[1:])
"""


def told_of(vector_id: str, before: str) -> VectorResult:
    vectors = [vector for vector in load_process_vectors() if vector.id == vector_id]
    command = (sys.executable, "-c", before, str(REFERENCE / EXECUTABLE))
    (told,) = run_suite(Plan(command=command, vectors=vectors, level="standard")).vectors
    return told


@pytest.mark.requirement("AOX-069")
def test_no_signal_comes_before_a_slow_executor_listens_for_it() -> None:
    assert told_of("prepared-and-ended", WORKS_FIRST).verdict is Verdict.PASS


@pytest.mark.requirement("AOX-202")
def test_a_child_that_polls_is_work_of_the_executor_that_waits() -> None:
    told = told_of("started-long-before", HAS_A_CHILD_THAT_POLLS)

    assert "AOX-202" in [finding.requirement for finding in told.findings]


@pytest.mark.requirement("AOX-198")
def test_an_executor_without_a_model_has_a_secret_to_tell_where_its_work_lasts(tmp_path: Path) -> None:
    argv = homemade(tmp_path, "print('the key is', os.environ.get('HOMEMADE_KEY'))\nreturn done")
    vectors = [vector for vector in load_process_vectors() if vector.id == "secret-nowhere"]

    (told,) = run_suite(Plan(command=tuple(argv), vectors=vectors)).vectors

    assert told.verdict is Verdict.FAIL
    assert [finding.requirement for finding in told.findings] == ["AOX-198"]


@pytest.mark.requirement("AOX-055")
def test_an_executor_without_tools_is_not_asked_for_what_a_tool_said(tmp_path: Path) -> None:
    toolless = shutil.copytree(REFERENCE, tmp_path / "toolless")
    source = (toolless / "tools.py").read_text(encoding="utf-8")
    begins = "        self._count += 1\n"
    assert begins in source
    told = '        return tool_result(use, "there are no tools", is_error=True)\n'
    (toolless / "tools.py").write_text(source.replace(begins, told + begins), encoding="utf-8")
    vectors = [vector for vector in load_process_vectors() if vector.id == "resume-behind-a-tool"]

    (played,) = run_suite(Plan(command=(str(toolless / EXECUTABLE),), vectors=vectors)).vectors

    assert played.verdict is Verdict.NEVER_EXERCISED


@pytest.mark.requirement("AOX-055")
def test_an_executor_that_keeps_all_tells_what_a_later_process_is_asked_about() -> None:
    vectors = [vector for vector in load_process_vectors() if any(prior.tells for prior in vector.priors)]

    result = run_suite(Plan(command=(str(REFERENCE / EXECUTABLE),), vectors=vectors))

    assert {vector.id: vector.unreached for vector in result.vectors if vector.unreached} == {}


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    with TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.requirement("AOX-198")
def test_a_secret_in_a_file_that_is_neither_in_home_nor_in_tmpdir_is_found(tmp_path: Path, shared_folder: Path) -> None:
    kept = shared_folder / "homemade.conf"
    argv = homemade(tmp_path, f"open({str(kept)!r}, 'w').write(os.environ.get('HOMEMADE_KEY', ''))\nreturn done")
    vectors = [vector for vector in load_process_vectors() if vector.id == "secret-nowhere"]

    (told,) = run_suite(Plan(command=tuple(argv), vectors=vectors)).vectors

    assert [(finding.requirement, finding.found) for finding in told.findings] == [
        ("AOX-198", f"found in the file {kept}")
    ]


@pytest.mark.parametrize(("interval", "is_told"), [(0, False), (-1, False), (True, False), (0.5, True)])
def test_a_silence_is_judged_only_by_an_interval_that_may_be(interval: float, is_told: bool) -> None:
    lines = [OutputLine(1, 0.1, b'{"event_type":"run_started"}\n'), OutputLine(2, 9.0, b'{"event_type":"failure"}\n')]
    invocation = {"limits": {"heartbeat_interval_seconds": interval}}

    found = list(judge_heartbeats(invocation, read_output(lines, b"")))

    assert [finding.requirement for finding in found] == (["AOX-080"] if is_told else [])


def test_a_process_that_has_ended_before_it_is_named_is_no_leftover() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait(20)
    looks = iter([[os.getpid(), ended.pid], [os.getpid()]])

    (named,) = named_processes(lambda: next(looks))

    assert named.startswith(f"{os.getpid()}: ")


def test_a_process_that_lives_and_has_no_name_is_a_leftover() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as nameless:
        nameless.wait(20)

    assert named_processes(lambda: [nameless.pid]) == [f"{nameless.pid}: ?"]
