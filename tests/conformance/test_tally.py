"""From plays to requirements: repeats, root causes, and what all vectors together show of a rule."""

from typing import Final

import pytest

from ao_conformance.tally import NOT_SELECTED, differ, over_all_repeats, tally, with_root_causes
from ao_conformance.vectors import ProcessVector, load_process_vectors
from ao_conformance.verdict import Finding, Reason, VectorResult, Verdict
from ao_protocol.published import load_requirements
from tests.conformance.reports.results import result_of

PASSED: Final = (Verdict.PASS, "")
FAILED: Final = (Verdict.FAIL, "")
NEVER_SEEN: Final = (Verdict.NOT_APPLICABLE, "event:tool_started")
UNDECLARED: Final = (Verdict.NOT_APPLICABLE, "")


def played(*ends: tuple[Verdict, str]) -> list[VectorResult]:
    return [VectorResult("x", "x", "X", "core", None, ("AOX-011",), end, unreached=moment) for end, moment in ends]


@pytest.mark.parametrize(
    ("ends", "is_told", "decides"),
    [
        ([PASSED, PASSED], False, Verdict.PASS),
        ([PASSED, FAILED, PASSED], True, Verdict.FAIL),
        ([PASSED, NEVER_SEEN], False, Verdict.PASS),
        ([NEVER_SEEN, NEVER_SEEN], False, Verdict.NOT_APPLICABLE),
        ([NEVER_SEEN, PASSED, FAILED], True, Verdict.FAIL),
        ([PASSED, UNDECLARED], True, Verdict.PASS),
    ],
    ids=[
        "always the same",
        "once broken",
        "a moment that did not come",
        "one that never did",
        "broken beside it",
        "declared once",
    ],
)
def test_a_moment_that_need_not_come_is_no_verdict(
    ends: list[tuple[Verdict, str]], is_told: bool, decides: Verdict
) -> None:
    results = played(*ends)

    assert (differ(results), over_all_repeats(results).verdict) == (is_told, decides)


VECTORS = {vector.id: vector for vector in load_process_vectors()}
CANCEL, ODD_LINES = VECTORS["cancel-twice"], VECTORS["cancel-behind-odd-lines"]


def broken(vector: ProcessVector, *requirements: str) -> VectorResult:
    findings = [Finding(requirement, "this", "that") for requirement in requirements]
    return result_of(vector, Verdict.FAIL if findings else Verdict.PASS, "", *findings)


def told(*results: tuple[ProcessVector, VectorResult]) -> list[list[str]]:
    vectors, played = zip(*results, strict=True)
    return [[finding.requirement for finding in result.findings] for result in with_root_causes(vectors, played)]


def test_odd_lines_are_not_blamed_where_no_cancel_works() -> None:
    assert told((CANCEL, broken(CANCEL, "AOX-063")), (ODD_LINES, broken(ODD_LINES, "AOX-062"))) == [
        ["AOX-063"],
        ["AOX-063"],
    ]


def test_they_are_blamed_where_every_other_cancel_works() -> None:
    assert told((CANCEL, broken(CANCEL)), (ODD_LINES, broken(ODD_LINES, "AOX-062"))) == [[], ["AOX-062"]]


def test_what_only_a_vector_that_builds_on_it_shows_is_no_cause() -> None:
    assert told((ODD_LINES, broken(ODD_LINES, "AOX-062", "AOX-063"))) == [["AOX-062", "AOX-063"]]


def test_what_follows_from_a_mistake_is_no_cause_of_another() -> None:
    """A wrong exit code is shown by itself, and in a second run as what that run is about."""
    code, second, turns = CANCEL, VECTORS["turn-meets-sigterm"], VECTORS["turn-and-sigterm"]

    assert (
        told((code, broken(code, "AOX-108")), (second, broken(second, "AOX-196")), (turns, broken(turns, "AOX-108")))
        == [["AOX-108"]] * 3
    )
    assert (
        told((code, broken(code, "AOX-196")), (second, broken(second, "AOX-196")), (turns, broken(turns, "AOX-108")))
        == [["AOX-196"]] * 3
    )


def test_two_that_each_follow_from_the_other_are_both_told() -> None:
    second, turns = VECTORS["turn-meets-sigterm"], VECTORS["turn-and-sigterm"]

    assert told((second, broken(second, "AOX-196")), (turns, broken(turns, "AOX-108"))) == [["AOX-108"], ["AOX-196"]]


def test_a_secret_that_was_told_is_told_as_that_in_any_case() -> None:
    assert told((CANCEL, broken(CANCEL, "AOX-063")), (ODD_LINES, broken(ODD_LINES, "AOX-062", "AOX-198"))) == [
        ["AOX-063"],
        ["AOX-063", "AOX-198"],
    ]


def test_a_vector_builds_on_requirements_of_others_that_have_vectors() -> None:
    core = {rule.id for rule in load_requirements() if rule.level == "core"}
    own = {rule for vector in VECTORS.values() if core.issuperset(vector.builds_on) for rule in vector.requirements}
    for vector in VECTORS.values():
        assert set(vector.requirements).isdisjoint(vector.builds_on), vector.id
        assert set(vector.builds_on) <= own, vector.id


OF_A_CANCEL = [vector for vector in load_process_vectors() if "AOX-063" in vector.requirements]
OF_A_MODEL = [vector for vector in OF_A_CANCEL if vector.model_script]


@pytest.mark.parametrize(
    ("vectors", "verdict", "reason"),
    [(OF_A_MODEL, Verdict.NOT_APPLICABLE, NOT_SELECTED), (OF_A_CANCEL, Verdict.UNTESTABLE, Reason.UNSEEN)],
    ids=["some of its vectors", "all of its vectors"],
)
def test_a_declared_capability_is_untestable_only_where_all_of_its_vectors_were_asked_for(
    vectors: list[ProcessVector], verdict: Verdict, reason: str
) -> None:
    rules = tally(
        [result_of(vector, Verdict.NOT_APPLICABLE, Reason.NO_MODEL) for vector in vectors], "core", lambda _: True
    )

    assert [(rule.verdict, rule.reason) for rule in rules if rule.id == "AOX-063"] == [(verdict, reason)]


def test_what_applies_and_nothing_made_happen_was_never_exercised() -> None:
    (one, *others) = OF_A_MODEL
    results = [result_of(one, Verdict.NEVER_EXERCISED, "the moment never came")]
    results += [result_of(vector, Verdict.NOT_APPLICABLE, "resume is not declared") for vector in others]

    (rule,) = [rule for rule in tally(results, "standard", lambda _: True) if rule.id == one.requirements[0]]

    assert (rule.verdict, rule.reason) == (Verdict.NEVER_EXERCISED, "the moment never came")
