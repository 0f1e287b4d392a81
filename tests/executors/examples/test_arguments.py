"""What no text is on a command line."""

import subprocess

import pytest


@pytest.mark.requirement("AOX-109")
def test_an_argument_that_is_not_utf8_is_a_bad_command_line(example: list[str]) -> None:
    ended = subprocess.run([*example, b"\xff"], stdin=subprocess.DEVNULL, capture_output=True, timeout=100, check=False)

    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr
