"""The examples in other languages, made into projects of another name and built once where their toolchain is there."""

from pathlib import Path
from typing import Final

import pytest

from tests.process.executors.examples.building import PROGRAMS, build_example, skip_without

EXAMPLES: Final = Path(__file__).parents[4] / "executors" / "examples"
NAME: Final = "parrot"
BUILT: Final = ("go", "rust")
"""Languages whose examples take long to build: their tests are for the slow job."""

LANGUAGES: Final = [
    pytest.param(language, marks=pytest.mark.slow) if language in BUILT else language for language in PROGRAMS
]


@pytest.fixture(scope="session", params=LANGUAGES)
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the executable of each example; skip the test where its toolchain is missing."""
    language, program = request.param, PROGRAMS[request.param]
    skip_without(program, f"the {language} example")
    return str(build_example(language, tmp_path_factory.mktemp("example") / language, NAME))
