"""What is told of everything that a play shows: each mistake once, and never nothing where something is wrong."""

from hypothesis import given
from hypothesis import strategies as st

from ao_conformance.judging.expectations import Difference
from ao_conformance.judging.judge import SHOWN_OF_EACH, PlayFindings, deduplicate
from ao_conformance.verdict import Finding, Verdict

REQUIREMENTS = st.sampled_from(["AOX-011", "AOX-043", "AOX-044", "AOX-075", "AOX-082", "AOX-105", "AOX-108"])


def findings(*verdicts: Verdict) -> st.SearchStrategy[Finding]:
    return st.builds(Finding, REQUIREMENTS, st.just("this"), st.sampled_from("abcde"), st.sampled_from(verdicts))


FINDINGS = findings(Verdict.FAIL, Verdict.WARN)
DIFFERENCES = st.one_of(
    st.builds(
        Difference, findings(Verdict.FAIL), st.booleans(), st.sampled_from(["", "ending", "exit", "end", "terminal"])
    ),
    st.builds(Difference, findings(Verdict.UNTESTABLE), may_be=st.booleans()),
)
SEEN = st.builds(
    PlayFindings,
    st.lists(FINDINGS, max_size=3).map(tuple),
    st.lists(FINDINGS, max_size=5).map(tuple),
    st.lists(DIFFERENCES, max_size=4).map(tuple),
    st.frozensets(REQUIREMENTS, max_size=3),
)


def failed(requirement: str, found: str = "that") -> Finding:
    return Finding(requirement, "this", found)


def test_an_exit_code_that_contradicts_the_terminal_event_is_told_as_that_alone() -> None:
    seen = PlayFindings((), (failed("AOX-108"),), (Difference(failed("AOX-063"), part="exit"),), frozenset({"AOX-063"}))
    assert deduplicate(seen) == [failed("AOX-108")]


def test_the_names_of_a_run_that_ended_otherwise_follow_from_its_end() -> None:
    seen = PlayFindings((), (failed("AOX-043"),), (Difference(failed("AOX-010"), is_another_ending=True),), frozenset())
    assert deduplicate(seen) == [failed("AOX-010")]


def test_where_the_rule_of_the_vector_is_broken_its_expectations_only_repeat_it() -> None:
    seen = PlayFindings((), (failed("AOX-092"),), (Difference(failed("AOX-044")),), frozenset({"AOX-092"}))
    assert deduplicate(seen) == [failed("AOX-092")]


def test_a_mistake_that_the_vector_is_not_about_hides_none_of_its_expectations() -> None:
    seen = PlayFindings((), (failed("AOX-092"),), (Difference(failed("AOX-044")),), frozenset({"AOX-044"}))
    assert deduplicate(seen) == [failed("AOX-092"), failed("AOX-044")]


@given(SEEN)
def test_something_is_told_wherever_something_is_wrong(seen: PlayFindings) -> None:
    everything = [*seen.remarks, *seen.general, *(one.finding for one in seen.differences)]
    told = deduplicate(seen)
    assert bool(told) == bool(everything)
    assert set(told) <= set(everything)
    assert len(set(told)) == len(told)
    assert all(sum(one.requirement == other.requirement for one in told) <= SHOWN_OF_EACH for other in told)


@given(SEEN)
def test_a_failure_is_never_left_out_in_favour_of_what_weighs_less(seen: PlayFindings) -> None:
    everything = [*seen.remarks, *seen.general, *(one.finding for one in seen.differences)]
    if any(finding.verdict is Verdict.FAIL for finding in everything):
        assert any(finding.verdict is Verdict.FAIL for finding in deduplicate(seen))
