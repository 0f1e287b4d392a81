"""What may stand in an expectation, and what is then a difference."""

from typing import Any

import pytest

from ao_conformance.matching import difference, in_order

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
