"""The suite for runners catches what it is there for: one mutant of the reference runner for each kind of fault."""

import sys
from pathlib import Path

import pytest

from ao_conformance.runner_suite.suite import Plan, run_suite
from ao_conformance.runner_suite.vectors import load_runner_vectors
from ao_conformance.verdict import SuiteResult, Verdict
from tests.conformance.runners.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
ARGUMENTS = ("{executor}", "{blueprint}", "{prompt}", "{project_dir}", "{timeout_seconds}", "{idle_seconds}")
REFERENCE = "reference"

CAUGHT = {
    "StartsThroughAShell": ("runner-path-for-a-shell", {"AOX-230"}),
    "SharesItsGroup": ("runner-own-group", {"AOX-230"}),
    "PassesItsEnvironment": ("runner-environment", {"AOX-231"}),
    "ForgetsTheSession": ("runner-invocation", {"AOX-232"}),
    "LeavesStderrUnread": ("runner-flood-of-stderr", {"AOX-233"}),
    "BelievesStderr": ("runner-stderr-sounds-bad", {"AOX-234"}),
    "WritesEventsAnew": ("runner-verbatim", {"AOX-235"}),
    "KeepsEveryLine": ("runner-endless-line", {"AOX-233"}),
    "SendsATurnTooEarly": ("runner-multi-turn", {"AOX-236"}),
    "PassesOnEveryTerminal": ("runner-two-terminals", {"AOX-240"}),
    "BelievesTheExitCode": ("runner-result-and-exit-77", {"AOX-241"}),
    "KeepsQuietAboutNoise": ("runner-noise", {"AOX-242"}),
    "CallsEverythingACrash": ("runner-exits-silently", {"AOX-243"}),
    "PromisesNoSideEffects": ("runner-exits-silently", {"AOX-244"}),
    "TriesAgain": ("runner-not-tried-again", {"AOX-245"}),
    "KillsAtOnce": ("runner-cancel-eof-is-enough", {"AOX-246"}),
    "AsksEverybody": ("runner-cancel-eof-is-enough", {"AOX-246"}),
    "LeavesTheGroupAlive": ("runner-leaves-a-child", {"AOX-247"}),
    "SendsItsOwnVersion": ("runner-invocation", {"AOX-250"}),
    "KnowsOnlyPlainSecrets": ("runner-secret-in-other-forms", {"AOX-263"}),
    "WaitsForEver": ("runner-time-is-up", {"AOX-241"}),
}
"""For each mutant the vector that catches it, and the requirements that are then found to be broken."""
AT_ONCE = {
    *("StartsThroughAShell", "SharesItsGroup", "PassesItsEnvironment", "WritesEventsAnew", "BelievesTheExitCode"),
    *("KeepsQuietAboutNoise", "PromisesNoSideEffects", "KillsAtOnce", "KnowsOnlyPlainSecrets"),
}
"""These show that the suite works at all; the others belong to the slow tests."""


def play_at(runner: str, *names: str) -> SuiteResult:
    module = "reference" if runner == REFERENCE else "mutants"
    argv = ("env", f"PYTHONPATH={ROOT}", sys.executable, "-m", f"tests.conformance.runners.{module}")
    mutant = () if runner == REFERENCE else (runner,)
    vectors = [vector for vector in load_runner_vectors() if vector.id in names]
    return run_suite(Plan((*argv, *mutant, *ARGUMENTS), vectors))


def test_every_mutant_is_caught_by_a_vector() -> None:
    assert CAUGHT.keys() == MUTANTS.keys()


@pytest.mark.parametrize(
    "mutant", [pytest.param(name, marks=[] if name in AT_ONCE else [pytest.mark.slow]) for name in CAUGHT]
)
def test_a_mutant_breaks_what_it_breaks_and_nothing_else(mutant: str) -> None:
    vector, broken = CAUGHT[mutant]

    result = play_at(mutant, vector)

    found = {finding.requirement for played in result.vectors for finding in played.findings}
    assert found == broken, result.vectors[0].findings
    assert result.exit_code == 1
    assert vector in result.vectors[0].reproduce
    assert {rule.id for rule in result.requirements if rule.verdict is Verdict.FAIL} == broken
