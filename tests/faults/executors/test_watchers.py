"""Executors that kill or stop the processes that watch over them: it harms nobody but their own run."""

from pathlib import Path
from typing import Any

import pytest

from ao_protocol.events import Failure, Result
from ao_runner.runs.run_request import GracePeriods
from tests.process.lifeline.offered import needs
from tests.process.runner.performing import Performed, check_whole, perform

pytestmark = needs("lifeline")

HURRIED = GracePeriods(0.1, 0.1, 0.1, 0.1, 0.1)


def attack(folder: Path, *deeds: str, and_leaves: bool = False, **settings: Any) -> Performed:
    parameters = {"prompt": "x", "deeds": list(deeds), "and_leaves": and_leaves}
    performed = perform("attacks_its_watchers", folder, parameters=parameters, **settings)
    check_whole(performed)
    return performed


def test_a_killed_lifeline_ends_its_run(tmp_path: Path) -> None:
    performed = attack(tmp_path, "kill the lifeline")

    assert isinstance(performed.terminal, Failure)
    assert performed.terminal.error.type == "executor_crashed"


@pytest.mark.parametrize("deed", ["kill the keeper", "stop the keeper"])
def test_a_run_ends_well_without_its_keeper(deed: str, tmp_path: Path) -> None:
    performed = attack(tmp_path, deed, and_leaves=True)

    assert performed.types == ["run_started", "log", "result"]
    assert isinstance(performed.terminal, Result)
    assert performed.record.exit_code == 0


@pytest.mark.parametrize("and_leaves", [True, False], ids=["after a result", "in a run that is cancelled"])
def test_a_stopped_lifeline_is_cut_when_the_run_is_given_up(and_leaves: bool, tmp_path: Path) -> None:
    stop = {} if and_leaves else {"stop_on": "log"}

    performed = attack(tmp_path, "stop the lifeline", and_leaves=and_leaves, grace_periods=HURRIED, **stop)

    assert performed.record.stop_actions[-2:] == ("kill", "abandon")
    assert performed.record.exit_code == -9
    assert isinstance(performed.terminal, Result if and_leaves else Failure)


@needs("cgroup")
def test_a_cgroup_ends_what_neither_keeper_nor_lifeline_can_end_any_more(tmp_path: Path) -> None:
    performed = attack(tmp_path, "kill the keeper", "kill the lifeline")

    assert isinstance(performed.terminal, Failure)
    assert performed.terminal.error.type == "executor_crashed"
