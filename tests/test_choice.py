"""Which tests a call of pytest runs, and what it says of those that it leaves out."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
THOROUGH = "tests/conformance/test_codec.py"
QUICK = "tests/unit/protocol/test_framing.py"


def hints(*arguments: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    called = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    return [line for line in called.stdout.splitlines() if "-m" in line]


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_whoever_names_tests_that_are_left_out_is_told_how_to_run_them(workers: str) -> None:
    assert hints(workers, QUICK, THOROUGH) == [
        f'{THOROUGH}: no test was run; to run thorough and slow tests, add -m ""'
    ]


def test_where_tests_are_left_out_for_another_reason_nothing_is_said() -> None:
    assert hints("-n0", "-m", "", "-k", "no_such_test", QUICK) == []
