"""The suite is itself tested: for every requirement an executor is broken, and the suite tells that and nothing else.

All mutants are played by `python -m tests.conformance.mutation`, which is a job of its own; here are a few of them.
"""

from collections import Counter

import pytest

from ao_conformance.suite import Plan, run_suite
from ao_conformance.vectors import load_process_vectors
from ao_conformance.verdict import Verdict
from ao_protocol.published import load_requirements
from tests.conformance.mutation import EXECUTABLE, REFERENCE, load_mutants, play_at

MUTANTS = {mutant.name: mutant for mutant in load_mutants()}
OF_READERS = {"AOX-086"}
"""What an executor cannot break, because it reads no messages; codecs and runners can."""
OF_EXECUTORS = {
    requirement.id
    for requirement in load_requirements()
    if requirement.level != "runner" and not requirement.untestable
} - OF_READERS


def test_every_requirement_of_executors_has_a_mutant() -> None:
    assert {mutant.breaks for mutant in MUTANTS.values()} == OF_EXECUTORS


def test_each_mutant_has_a_name_of_its_own_and_replaces_text_that_is_there_once() -> None:
    assert [name for name, times in Counter(mutant.name for mutant in load_mutants()).items() if times > 1] == []
    for mutant in MUTANTS.values():
        for piece in mutant.pieces:
            source = (mutant.folder / piece.file).read_text(encoding="utf-8")
            assert source.count(piece.find) == 1, mutant.name
            compile(source.replace(piece.find, piece.replace), mutant.name, "exec")


@pytest.mark.slow  # mutation
@pytest.mark.parametrize(
    "name",
    [
        "lists-oldest-first",
        "drops-a-line-without-end",
        "names-one-problem",
        "speaks-after-the-end",
        "leaves-descendants",
    ],
)
def test_a_broken_executor_fails_its_own_requirement_and_no_other(name: str) -> None:
    mutant = MUTANTS[name]
    vectors = [vector for vector in load_process_vectors() if mutant.breaks in vector.requirements]
    caught = play_at(mutant, vectors)
    assert caught.exactly, str(caught)


@pytest.mark.slow  # repetition
def test_the_verdicts_are_the_same_in_every_repeat() -> None:
    quick = [vector for vector in load_process_vectors() if vector.level == "core" and not vector.works_for_seconds]
    result = run_suite(Plan(command=(str(REFERENCE / EXECUTABLE),), vectors=quick, jobs=6, repeats=3))
    assert result.unstable == ()
    assert result.verdict is Verdict.PASS
