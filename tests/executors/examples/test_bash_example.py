"""The example in bash where the machine does not have what it needs; nothing else can say so but bash itself."""

import shutil
from pathlib import Path

import pytest

from tests.executors.driver import bare_environment, invocation, run
from tests.executors.examples.building import skip_without
from tests.executors.examples.conftest import EXAMPLES

BASH = [str(EXAMPLES / "bash" / "ao-bash-exec")]


@pytest.fixture(autouse=True)
def needs_jq() -> None:
    skip_without("jq", "the bash example")


@pytest.mark.requirement("AOX-192")
def test_a_program_that_is_missing_is_a_failure_with_an_event(tmp_path: Path) -> None:
    for program in ("env", "bash"):
        (tmp_path / program).symlink_to(shutil.which(program) or program)

    ended = run(BASH, invocation(), env=bare_environment() | {"PATH": str(tmp_path)})

    assert ended.events[0]["event_type"] == "run_started"
    assert (ended.error["type"], ended.exit_code) == ("dependency_missing", 1)


@pytest.mark.requirement("AOX-192")
def test_a_place_for_files_that_is_not_there_is_passed_over() -> None:
    ended = run(BASH, invocation(), env=bare_environment() | {"TMPDIR": "/dev/null/nowhere"})

    assert ended.terminal["result_text"] == "Hi"
