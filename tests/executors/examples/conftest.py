"""The examples in other languages, made into projects of another name and built once where their toolchain is there."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from ao_executors.scaffold.project import BUILD, make_project

EXAMPLES: Final = Path(__file__).parents[3] / "executors" / "examples"
NAME: Final = "parrot"
PROGRAMS: Final = {
    "bash": "jq",
    "node": "node",
    "perl": "perl",
    "c": "cc",
    "go": "go",
    "rust": "cargo",
}
"""By language, the program that has to be there. Python has the toolkit, which is tested by itself."""

BUILD_SECONDS: Final = 100


def build_example(language: str, folder: Path) -> list[str]:
    """Return the command of an example called NAME; skip the test where the toolchain is missing."""
    program = PROGRAMS[language]
    if not _works(program):
        pytest.skip(f"{program} does not run here, so the {language} example is not tested; .ci/toolchains installs it")
    project = make_project(language, folder / language, NAME)
    for command in BUILD[language]:
        argv = ["/bin/sh", "-c", command.format(executable=project.executable)]
        subprocess.run(argv, cwd=project.folder, check=True, capture_output=True, timeout=BUILD_SECONDS)
    return [str(project.folder / project.executable)]


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
