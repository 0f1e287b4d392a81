"""The public names of `ao_protocol`: documented, typed."""

import inspect
import re
from pathlib import Path

import pytest

import ao_protocol

DOCS = Path(__file__).parents[3] / "docs" / "python.md"
FUNCTIONS = [name for name in ao_protocol.__all__ if inspect.isfunction(getattr(ao_protocol, name))]


def test_the_docs_list_the_public_names() -> None:
    section = DOCS.read_text(encoding="utf-8").partition("## The protocol without processes")[2]
    rows = [line for line in section.splitlines() if line.startswith("|")]

    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} - {"describe"} == set(ao_protocol.__all__)


@pytest.mark.parametrize("name", ao_protocol.__all__)
def test_a_public_name_is_there_and_says_what_it_is(name: str) -> None:
    assert getattr(ao_protocol, name).__doc__


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_says_what_goes_in_and_out(name: str) -> None:
    function = getattr(ao_protocol, name)
    documented = inspect.getdoc(function) or ""

    assert "\nArgs:" in documented
    assert "\nRaises:" in documented
    assert ("\nReturns:" in documented) == (inspect.signature(function).return_annotation is not None)
    assert all(f"    {parameter}: " in documented for parameter in inspect.signature(function).parameters)


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'parse'; its names are Blueprint, "):
        ao_protocol.parse  # type: ignore[attr-defined]  # noqa: B018
