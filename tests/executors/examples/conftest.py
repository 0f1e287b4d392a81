"""The examples in other languages, built once where their toolchain is there."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from ao_executors.scaffold.project import BUILD

EXAMPLES: Final = Path(__file__).parents[3] / "executors" / "examples"
PROGRAMS: Final = {"bash": "jq", "node": "node", "perl": "perl", "go": "go", "rust": "cargo"}
"""By language, the program that has to be there."""

BUILD_SECONDS: Final = 100


def build_example(language: str, folder: Path) -> list[str]:
    """Return the command of an example, built in a copy of it; skip the test where the toolchain is missing."""
    program = PROGRAMS[language]
    if not _works(program):
        pytest.skip(f"{program} does not run here, so the {language} example is not tested; .ci/toolchains installs it")
    copy = folder / language
    shutil.copytree(EXAMPLES / language, copy, ignore=shutil.ignore_patterns("target"))
    executable = f"ao-{language}-exec"
    for command in BUILD.get(language, ()):
        argv = command.format(executable=executable).split()
        subprocess.run(argv, cwd=copy, check=True, capture_output=True, timeout=BUILD_SECONDS)
    return [str(copy / executable)]


def _works(program: str) -> bool:
    """Tell whether a toolchain is there; that of Rust may be a link to one that somebody else has."""
    if shutil.which(program) is None:
        return False
    version = "version" if program == "go" else "--version"
    return subprocess.run([program, version], capture_output=True, timeout=BUILD_SECONDS, check=False).returncode == 0


BUILT: Final = ("go", "rust")
"""Languages whose examples take long to build: their tests are for the slow job."""

LANGUAGES: Final = [
    pytest.param(language, marks=pytest.mark.slow) if language in BUILT else language for language in PROGRAMS
]


@pytest.fixture(scope="module", params=LANGUAGES)
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command of each example."""
    return build_example(request.param, tmp_path_factory.mktemp("example"))
