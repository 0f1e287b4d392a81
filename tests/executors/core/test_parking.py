"""A process that is started before there is anything to do (SPEC 10)."""

from pathlib import Path

import pytest

from tests.executors.driver import ExecutorProcess, bare_environment, installed, invocation, run
from tests.executors.homemade import homemade

ECHO = [installed("ao-echo-exec")]


@pytest.mark.requirement("AOX-203")
def test_a_parked_process_has_imported_what_its_run_needs(tmp_path: Path) -> None:
    with ExecutorProcess.start(homemade(tmp_path, "return done")) as executor:
        executor.await_stderr("warm")
        (tmp_path / "pydantic.py").write_text("raise ImportError('too late')")
        executor.write_line(invocation())
        assert executor.finish().types == ["run_started", "result"]


def test_what_is_there_already_is_not_kept_waiting_by_imports(tmp_path: Path) -> None:
    assert "warm" not in run(homemade(tmp_path, "return done"), invocation()).stderr


def test_what_cannot_be_imported_is_told_by_the_run_that_needs_it(tmp_path: Path) -> None:
    (tmp_path / "pydantic.py").write_text("import sys\nsys.stderr.write('looked\\n')\nraise ImportError('broken')")
    with ExecutorProcess.start(ECHO, env={**bare_environment(), "PYTHONPATH": str(tmp_path)}) as executor:
        executor.await_stderr("looked")
        executor.write_line(invocation(mode="resume", executor_session_id="1"))
        ended = executor.finish()

    assert ended.error["message"] == "ImportError: broken"
