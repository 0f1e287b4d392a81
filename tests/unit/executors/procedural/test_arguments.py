"""Parameters as arguments of a command."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_executors.procedural.command_line import arguments_of, problems_with


@pytest.mark.parametrize(
    ("value", "arguments"),
    [
        ("tea", ["--key", "tea"]),
        ("", ["--key", ""]),
        ("two words; $(rm) `x` 'y' \"z\"\n", ["--key", "two words; $(rm) `x` 'y' \"z\"\n"]),
        ("-rf", ["--key=-rf"]),
        ("--other", ["--key=--other"]),
        (True, ["--key"]),
        (False, []),
        (None, []),
        (5, ["--key", "5"]),
        (-5, ["--key=-5"]),
        (0.5, ["--key", "0.5"]),
        (["a", "b"], ["--key", "a,b"]),
        (["-a", "b"], ["--key=-a,b"]),
        ([1, True, None, "x"], ["--key", "1,true,null,x"]),
        ([], ["--key", ""]),
        ({"a": [1, {"b": "ü"}]}, ["--key", '{"a":[1,{"b":"ü"}]}']),
    ],
    ids=repr,
)
def test_a_value_becomes(value: object, arguments: list[str]) -> None:
    assert arguments_of({"key": value}) == arguments  # type: ignore[dict-item]  # any JSON


def test_keys_stay_as_they_are_and_in_order() -> None:
    assert arguments_of({"max_words": 3, "dry-run": True, "B": "b"}) == ["--max_words", "3", "--dry-run", "--B", "b"]


@pytest.mark.parametrize("key", ["", "-x", "_x", "a b", "a=b", "ü", "a\nb", "a.b"])
def test_a_key_that_is_no_plain_word_is_refused(key: str) -> None:
    (problem,) = problems_with({key: 1})
    assert "is not a valid option name" in problem


@pytest.mark.parametrize(
    ("value", "reason"),
    [([["a"]], "commas cannot join"), ([{}], "commas cannot join"), ("a\0b", "NUL"), ("x" * 140_000, "is longer than")],
    ids=["list in a list", "object in a list", "NUL", "too long"],
)
def test_a_value_that_no_argument_can_carry_is_refused(value: object, reason: str) -> None:
    (problem,) = problems_with({"key": value})  # type: ignore[dict-item]  # any JSON
    assert reason in problem


def test_every_problem_is_named() -> None:
    problems = problems_with({"a b": 1, "fine": 2, "nul": "\0"})

    assert [problem.partition(":")[0] for problem in problems] == ['$["a b"]', "$.nul"]


@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]*", fullmatch=True), st.text().filter(lambda t: "\0" not in t)
    )
)
def test_no_value_can_pass_for_an_option(parameters: dict[str, str]) -> None:
    arguments = arguments_of(dict(parameters))

    names = [argument.partition("=")[0] for argument in arguments if argument.startswith("-")]
    assert names == [f"--{key}" for key in parameters]
