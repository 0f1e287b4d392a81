"""A pytest fixture that gives simulators: `pytest_plugins = ["ao_model_simulator.pytest_plugin"]`.

The only module here that needs pytest.
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
    """What the fixture `model_sim` is, for the annotations of tests."""

    def __call__(self, script: ScriptLike, *, satisfied: bool = True, strict: bool = True) -> ModelSimulator:
        """Return a simulator that listens until the test ends.

        `script` is a `Script`, the path of a file, or a list of answers. After a test that passed,
        `require_satisfied(strict=strict)` is called for it, unless `satisfied` is false.
        """


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember whether the test itself passed: one reason to fail is enough."""
    report = yield
    if call.when == "call":
        item.stash[_HAS_PASSED] = report.passed
    return report


@pytest.fixture
def model_sim(request: pytest.FixtureRequest) -> Iterator[StartModelSimulator]:
    """Start simulated models: `model_sim([{"text": "Hello."}])`. They end with the test."""
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
