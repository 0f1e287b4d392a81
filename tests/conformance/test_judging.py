"""What a play shows to be wrong: each mistake once, and never nothing where something is wrong."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_conformance.judging.events import unknown_fields
from ao_conformance.judging.expectations import Difference
from ao_conformance.judging.judge import SHOWN_OF_EACH, PlayFindings, deduplicate
from ao_conformance.matching import difference, in_order
from ao_conformance.suite import Plan, run_suite
from ao_conformance.vectors import load_process_vectors
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


REFERENCE = Path(__file__).parent / "reference" / "ao-reference-exec"


def test_a_url_that_is_not_used_is_named(tmp_path: Path) -> None:
    program = tmp_path / "ao-reference-exec"
    program.write_text(f'#!/bin/sh\nANTHROPIC_BASE_URL=http://127.0.0.1:9 exec {REFERENCE} "$@"\n')
    program.chmod(0o755)
    vectors = [vector for vector in load_process_vectors() if vector.id in {"start", "wrong-no-mode"}]

    told = {found.id: found for found in run_suite(Plan(command=(str(program),), vectors=vectors)).vectors}

    assert (
        told["start"]
        .findings[0]
        .found.endswith("the model was never asked: is ANTHROPIC_BASE_URL, which describe names, used as its URL?")
    )
    assert told["wrong-no-mode"].verdict is Verdict.PASS


STARTED = {"event_type": "run_started", "seq": 1, "executor": {"name": "a", "version": "1"}}


@pytest.mark.parametrize(
    ("document", "part", "unknown"),
    [
        (STARTED, "run_started", []),
        ({**STARTED, "colour": "red"}, "run_started", ["$.colour"]),
        ({**STARTED, "executor": {"name": "a", "colour": "red"}}, "run_started", ["$.executor.colour"]),
        ({"error": {"type": "x", "details": {"any": {"thing": 1}}, "code": 7}}, "failure", ["$.error.code"]),
        ({"usage": {"input_tokens": 1, "total_tokens": 2}}, "result", ["$.usage.total_tokens"]),
        ({"content": [{"text": "a"}, {"text": "b", "id": 1}]}, "message", ["$.content[1].id"]),
        ({"result_data": {"any": 1}, "output": None}, "result", []),
        ({"tool_input": {"any": [{"thing": 1}]}}, "tool_started", []),
    ],
    ids=["none", "in an event", "in an object", "in an error", "in a sum", "in a list", "in data", "in an input"],
)
def test_what_an_event_has_too_much_is_told_with_its_path(
    document: dict[str, object], part: str, unknown: list[str]
) -> None:
    assert unknown_fields(document, "event", part) == unknown


def test_a_description_is_looked_at_too() -> None:
    description = {
        "capabilities": {"resume": True, "colour": 1, "output_schema": {"strategies": [], "models": []}},
        "config_schema": {"properties": {"any": {}}},
        "model_endpoint": {"any-name": {"env": "X", "port": 1}},
        "homepage": "here",
    }
    assert unknown_fields(description, "description") == [
        "$.capabilities.colour",
        "$.capabilities.output_schema.models",
        "$.model_endpoint.any-name.port",
        "$.homepage",
    ]


SAME: list[tuple[Any, Any]] = [
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": {"$absent": True}}, {}),
    ({"a": {"$absent": True}}, {"a": None}),
    ({"a": None}, {"a": None}),
    ([1, {"b": 2}], [1, {"b": 2, "c": 3}]),
    ({"$any_of": ["x", 2]}, 2),
    ({"$matches": "^a+$"}, "aaa"),
    ({"$about": 100}, 109.9),
    ({"$contains": "b"}, "abc"),
    ({"$contains": "b"}, ["a", "b"]),
    ({"$same_members": ["a", "b"]}, ["b", "a"]),
    ({"$each": {"p": 1}}, [{"p": 1, "q": 2}, {"p": 1}]),
    ({"$at_least": 2}, [1, 2]),
    ({"$at_least": 2}, 2),
    ({"$not_empty": True}, "x"),
    ({"$newest_first": True}, ["3.10", "3.9", "2.1"]),
    ({"$not_newer_than": "3.10"}, "3.9"),
]
OTHER: list[tuple[Any, Any]] = [
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, {}),
    ({"a": 1}, []),
    ({"a": None}, {}),
    ({"a": {"$absent": True}}, {"a": 0}),
    (1, True),
    (0, False),
    ([1, 2], [2, 1]),
    ([1], [1, 1]),
    ({"$any_of": ["x"]}, "y"),
    ({"$matches": "^a+$"}, "b"),
    ({"$about": 100}, 111),
    ({"$about": 100}, "100"),
    ({"$contains": "b"}, 7),
    ({"$same_members": ["a"]}, ["a", "a"]),
    ({"$each": {"p": 1}}, []),
    ({"$each": {"p": 1}}, [{"p": 2}]),
    ({"$at_least": 2}, [1]),
    ({"$at_least": 1}, None),
    ({"$not_empty": True}, []),
    ({"$newest_first": True}, ["3.9", "3.10"]),
    ({"$newest_first": True}, []),
    ({"$not_newer_than": "3.0"}, "3.1"),
    ({"$not_newer_than": "3.0"}, "three"),
]


@pytest.mark.parametrize(("expected", "found"), SAME)
def test_what_is_as_expected_makes_no_difference(expected: object, found: object) -> None:
    assert difference(expected, found) is None


@pytest.mark.parametrize(("expected", "found"), OTHER)
def test_what_is_not_makes_one(expected: object, found: object) -> None:
    assert difference(expected, found) is not None


def test_a_difference_says_where_it_is_what_was_found_and_what_was_expected() -> None:
    assert difference({"error": {"type": "a", "n": [1, 2]}}, {"error": {"type": "a", "n": [1, 3]}}) == (
        "$.error.n[1] is 3, expected 2"
    )
    assert difference({"a": {"b": "x"}}, {"a": {}}) == "$.a.b is missing, expected 'x'"


def test_a_star_stands_for_any_number_of_events() -> None:
    assert in_order(["run_started", "*", "result"], ["run_started", "message", "usage", "result"])
    assert in_order(["run_started", "*", "result"], ["run_started", "result"])
    assert not in_order(["run_started", "result"], ["run_started", "message", "result"])
    assert not in_order(["*", "message", "*"], ["run_started", "result"])
