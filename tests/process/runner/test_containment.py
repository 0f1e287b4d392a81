"""What the machine offers is found, used, and told truly."""

import os
import resource
from pathlib import Path

import pytest

from ao_lifeline import IS_THERE
from ao_lifeline.lifelines import Lifelines, Limit
from ao_runner.processes.containment import Containment, lifelines, limits_of, probe
from ao_runner.processes.spawn import Child
from tests.process.lifeline.offered import reason_against

ENVIRONMENT = {"PATH": os.environ["PATH"]}
LINUX = pytest.mark.skipif(not IS_THERE, reason="only Linux has subreapers")
SECONDS = 100.0


def containment_of_a_run(held: Lifelines | None) -> str:
    with Child(["true"], ENVIRONMENT, lifeline=held) as child:
        assert child.reap(SECONDS) == 0
        return child.containment


@pytest.mark.requirement("AOX-248")
@pytest.mark.parametrize("wanted", ["process_group", "lifeline", "cgroup"])
def test_a_run_reports_what_was_found_and_nothing_is_left_of_it(wanted: str) -> None:
    found = probe({"AO_CONTAINMENT": wanted})
    with lifelines(found) as held:
        assert containment_of_a_run(held) == found.kind
    assert found.folder is None or not list(found.folder.glob(f"ao-{os.getpid()}-*/"))


def test_a_weaker_means_than_the_best_can_be_chosen() -> None:
    assert probe({"AO_CONTAINMENT": "process_group"}).kind == "process_group"
    assert probe({}).kind == probe({"AO_CONTAINMENT": "cgroup"}).kind
    if IS_THERE:
        assert probe({"AO_CONTAINMENT": "lifeline"}).sentence == (
            "lifeline: every process of a run is killed with it, also if ao is killed (limited by AO_CONTAINMENT)"
        )


def test_a_test_that_is_skipped_says_whether_the_machine_or_somebody_is_to_blame() -> None:
    assert reason_against("process_group", {}) == ""
    if IS_THERE:
        asked = {"AO_CONTAINMENT": "process_group"}
        assert reason_against("lifeline", asked) == "AO_CONTAINMENT=process_group is set, which is less than lifeline"
        assert probe(asked).sentence.endswith("(limited by AO_CONTAINMENT)")


@LINUX
def test_a_cgroup_that_cannot_be_divided_after_all_leaves_the_lifeline(tmp_path: Path) -> None:
    with lifelines(Containment("cgroup", "as it was probed", tmp_path / "gone")) as held:
        assert containment_of_a_run(held) == "lifeline"


@LINUX
def test_a_run_whose_leaf_cannot_be_entered_goes_on_without(tmp_path: Path) -> None:
    with Lifelines(tmp_path) as held:
        assert containment_of_a_run(held) == "lifeline"


def test_the_limits_of_a_profile_become_resource_limits_the_memory_last() -> None:
    assert limits_of({"memory_bytes": 1, "open_files": 2, "cpu_seconds": 3}) == [
        Limit("core", resource.RLIMIT_CORE, 0, 0),
        Limit("open_files", resource.RLIMIT_NOFILE, 2, 2),
        Limit("cpu_seconds", resource.RLIMIT_CPU, 3, 8),
        Limit("memory_bytes", resource.RLIMIT_AS, 1, 1),
    ]


def test_a_limit_of_another_name_is_refused() -> None:
    with pytest.raises(KeyError):
        limits_of({"memory": 1})
