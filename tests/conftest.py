"""Fixtures for every package's tests."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

# As in an activated environment: scripts that ask env for python3 get the interpreter that runs the tests.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

# A shell starts jobs in the background with SIGINT ignored, and nohup ignores SIGHUP. Every process of a test would
# inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A late import on a busy machine is no slow example. `.ci/weekly` asks for many.
settings.register_profile("few", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("many", settings.get_profile("few"), max_examples=1000)
settings.load_profile("few")

# The tests start thousands of processes of this project, whose sources are not to be compiled by each of them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

if TYPE_CHECKING:
    from ao_model_simulator import ModelSimulator

StartModel = Callable[..., "ModelSimulator"]

ROOT = Path(__file__).parents[1]
STORY_SECONDS = 100.0
QUICK = "not slow and not thorough"
"""What pyproject.toml lets pytest choose."""
THOROUGH = (
    "tests/conformance/",
    "tests/faults/",
    "tests/foreign_coordinator/",
    "tests/process/doors/",
    "tests/process/executors/",
    "tests/process/runner/cli/",
    "tests/process/runner/outbox/",
    "tests/process/runner/postgres/",
    "tests/process/runner/warm/",
    "tests/process/server/",
    "tests/real_cli/",
    "tests/upgrade/",
)
"""What takes most of the time: the README's command leaves it to .ci/run."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of a folder of which no test will run."""
    path = f"{collection_path.relative_to(ROOT)}/"
    return True if config.option.markexpr == QUICK and path.startswith(THOROUGH) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as thorough what lies in a thorough folder and is not marked as slow where it stands."""
    for item in items:
        if item.nodeid.startswith(THOROUGH) and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.thorough)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Tell who names tests of which none was run, because they are thorough or slow, how to run them."""
    chosen = config.option.markexpr == QUICK and config.args_source is config.ArgsSource.ARGS
    if not chosen or config.option.collectonly or exitstatus not in {0, 5}:
        return
    reports = [report for kind, of_kind in terminalreporter.stats.items() if kind != "deselected" for report in of_kind]
    for argument in config.args:
        path, *names = argument.split("::")
        node = "::".join([os.path.relpath(config.invocation_params.dir / path, ROOT), *names])
        if node != "." and not any(report.nodeid.startswith(node) for report in reports):
            terminalreporter.write_line(f'{argument}: no test was run; to run thorough and slow tests, add -m ""')


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function on an event loop of its own, for a bounded time."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None

    async def bounded() -> None:
        async with asyncio.timeout(STORY_SECONDS):
            await pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})

    asyncio.run(bounded())
    return True


@pytest.fixture
def start_model() -> Iterator[StartModel]:
    """Start simulated models: `start_model({"text": "Hello."}, ...)`. They end with the test.

    The test fails when a model was asked what its script does not expect, unless it says `satisfied=False`.
    """
    # Imported late, because most tests need no model.
    from ao_model_simulator import ModelSimulator, Script

    demanding: list[ModelSimulator] = []
    with ExitStack() as stack:

        def start(*answers: Mapping[str, Any], satisfied: bool = True) -> ModelSimulator:
            simulator = stack.enter_context(ModelSimulator(Script.from_answers(answers)))
            if satisfied:
                demanding.append(simulator)
            return simulator

        yield start
    for simulator in demanding:
        simulator.require_satisfied()
