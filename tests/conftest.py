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
NOT_THOROUGH = "not slow and not thorough"
"""What pyproject.toml lets pytest choose."""
THOROUGH = (
    "tests/conformance/",
    "tests/faults/",
    "tests/foreign_coordinator/",
    "tests/process/doors/",
    "tests/process/executors/command/",
    "tests/process/executors/examples/",
    "tests/process/executors/http_bridge/",
    "tests/process/executors/procedural/",
    "tests/process/executors/scripted/",
    "tests/process/runner/cli/",
    "tests/process/runner/outbox/",
    "tests/process/runner/postgres/",
    "tests/process/runner/test_home.py",
    "tests/process/runner/test_kept_contracts.py",
    "tests/process/runner/warm/",
    "tests/process/server/",
    "tests/real_cli/",
)
"""What takes most of the time: the README's command leaves it to .ci/run. A file that is named on the command line is
run all the same, with `-m ""`."""


SLOW = (
    "tests/docs/test_recipe_temporal.py",
    "tests/faults/fleet/",
    "tests/faults/machine/",
    "tests/faults/worker/",
    "tests/process/executors/acp/",
    "tests/process/executors/http_bridge/",
    "tests/process/runner/cli/test_answers.py",
    "tests/process/runner/cli/test_damaged_store.py",
    "tests/process/runner/cli/test_remarks.py",
    "tests/process/runner/cli/test_store_command.py",
    "tests/process/runner/postgres/test_back_in_time.py",
    "tests/process/runner/postgres/test_hints.py",
    "tests/process/runner/postgres/test_server_faults.py",
    "tests/process/server/test_callbacks.py",
    "tests/process/server/test_drain.py",
    "tests/process/server/test_oversight.py",
    "tests/process/server/test_webhooks.py",
    "tests/process/server/ui/test_agent_editor.py",
    "tests/process/server/ui/test_live.py",
    "tests/process/server/ui/test_looks.py",
    "tests/real_cli/claude_code/test_clouds.py",
    "tests/real_cli/claude_code/test_denied_tools.py",
    "tests/real_cli/claude_code/test_lean_import.py",
    "tests/real_cli/claude_code/test_usage_limit.py",
)
"""Faults and rarer situations, which .ci/weekly has time for."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of which no test will run."""
    path = f"{collection_path.relative_to(ROOT)}/"
    return True if config.option.markexpr == NOT_THOROUGH and path.startswith((*THOROUGH, *SLOW)) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow or thorough, by its folder."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
        elif item.nodeid.startswith(THOROUGH) and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.thorough)


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
