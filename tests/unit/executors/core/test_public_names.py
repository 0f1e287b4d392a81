"""The names that `ao_executors.core` offers: what is public is explained, and what is not says so."""

import inspect
from collections.abc import Callable
from pathlib import Path

import ao_executors.core
from ao_executors.core import program

PUBLIC = {name: getattr(ao_executors.core, name) for name in ao_executors.core.__all__}
FUNCTIONS: list[Callable[..., object]] = [
    ao_executors.core.serve,
    ao_executors.core.converse,
    ao_executors.core.hold_conversation,
    program.capture,
]


def test_every_class_and_function_is_explained() -> None:
    needs_words = {name: value for name, value in PUBLIC.items() if inspect.isroutine(value) or inspect.isclass(value)}
    undocumented = [name for name, value in needs_words.items() if not value.__doc__]

    assert undocumented == []


def test_a_function_says_what_it_takes() -> None:
    unsaid = [
        (function.__name__, parameter)
        for function in FUNCTIONS
        for parameter in inspect.signature(function).parameters
        if f"{parameter}:" not in (function.__doc__ or "")
    ]

    assert unsaid == []


def test_an_internal_module_says_so() -> None:
    public = {"__init__", "executor", "program"}
    opening = {
        path.stem: path.read_text(encoding="utf-8").split('"""')[1]
        for path in Path(inspect.getfile(ao_executors.core)).parent.glob("*.py")
    }

    assert [name for name, text in opening.items() if name not in public and "Internal" not in text] == []
