"""A pytest fixture for simulators: `pytest_plugins = ["ao_model_simulator.pytest_plugin"]`.

Only this module needs pytest.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from ao_model_simulator.script import Answer, Script
from ao_model_simulator.simulator import ModelSimulator

ScriptLike = Script | Path | str | Sequence[Answer | Mapping[str, Any]]

_HAS_PASSED: Final = pytest.StashKey[bool]()


class StartModelSimulator(Protocol):
    """The type of the fixture `model_sim`, for the annotations of tests."""

    def __call__(self, script: ScriptLike, *, satisfied: bool = True, strict: bool = True) -> ModelSimulator:
        """Return a simulator that listens until the test ends.

        Args:
            script: A `Script`, the path of a script file, or a list of answers.
            satisfied: Whether `require_satisfied` is called after a test that passed.
            strict: Whether it also requires that every answer was used.

        Raises:
            ScriptError: The script file is not valid.
            pydantic.ValidationError: An answer in the list is not valid.
        """


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record whether the test itself passed, because one reason to fail is enough."""
    report = yield
    if call.when == "call":
        item.stash[_HAS_PASSED] = report.passed
    return report


@pytest.fixture
def model_sim(request: pytest.FixtureRequest) -> Iterator[StartModelSimulator]:
    """Start simulators: `model_sim([{"text": "Hello."}])`. They stop at the end of the test."""
    demanding: list[tuple[ModelSimulator, bool]] = []
    with ExitStack() as stack:

        def start(script: ScriptLike, *, satisfied: bool = True, strict: bool = True) -> ModelSimulator:
            simulator = stack.enter_context(ModelSimulator(_as_script(script)))
            if satisfied:
                demanding.append((simulator, strict))
            return simulator

        yield start
    if request.node.stash.get(_HAS_PASSED, False):
        for simulator, strict in demanding:
            simulator.require_satisfied(strict=strict)


def _as_script(script: ScriptLike) -> Script | Path | str:
    return script if isinstance(script, Script | Path | str) else Script.from_answers(script)
