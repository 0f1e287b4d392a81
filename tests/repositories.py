"""Git repositories of tests, and the clone that they run in."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]


def skip_without_git() -> None:
    """Skip the test that is running where git is not there."""
    if shutil.which("git") is None:
        pytest.skip("git is not on PATH, by which the test works; .ci/toolchains installs it on Debian, as root")


def skip_outside_a_clone() -> None:
    """Skip the test that is running where git is not there, or these files are no clone, as in an unpacked sdist."""
    skip_without_git()
    if not (ROOT / ".git").exists():
        pytest.skip(f"{ROOT} is no clone of the repository, which the test reads by git")


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return what it prints. Where there is no git, the test is skipped."""
    skip_without_git()
    command = ["git", "-c", "user.name=somebody", "-c", "user.email=somebody@localhost", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
