"""Git repositories of tests."""

import shutil
import subprocess
from pathlib import Path

import pytest


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return what it prints. Where there is no git, the test is skipped."""
    if shutil.which("git") is None:
        pytest.skip("git is not there, by which the test makes a repository; .ci/toolchains installs it")
    command = ["git", "-c", "user.name=somebody", "-c", "user.email=somebody@localhost", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
