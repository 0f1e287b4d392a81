"""Builds the examples where their toolchain is there."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from ao_executors.scaffold.project import BUILD, make_project

PROGRAMS: Final = {"bash": "jq", "node": "node", "perl": "perl", "c": "cc", "go": "go", "rust": "cargo"}
"""By language, the program that has to be there. Python has the toolkit, which is tested by itself."""

BUILD_SECONDS: Final = 100


def is_there(program: str) -> bool:
    """Tell whether a toolchain runs; that of Rust may be a link to one that somebody else has."""
    if shutil.which(program) is None:
        return False
    version = "version" if program == "go" else "--version"
    return subprocess.run([program, version], capture_output=True, timeout=BUILD_SECONDS, check=False).returncode == 0


def skip_without(program: str, untested: str) -> None:
    """Skip the test that is running where a program does not run, and say what is not tested therefore."""
    if not is_there(program):
        how = ".ci/toolchains installs it on Debian, as root"
        pytest.skip(f"{program} does not run here, so {untested} is not tested; {how}")


def build_example(language: str, folder: Path, name: str) -> Path:
    """Return the executable of an example that is called `name`, made and built in a new folder."""
    project = make_project(language, folder, name)
    for command in BUILD[language]:
        argv = ["/bin/sh", "-c", command.format(executable=project.executable)]
        subprocess.run(argv, cwd=folder, check=True, capture_output=True, timeout=BUILD_SECONDS)
    return folder / project.executable
