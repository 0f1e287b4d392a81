"""Parameters as a command's arguments: `--key value`, made without a shell (docs/decisions/procedural.md)."""

import json
import re
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from ao_executors.core.run_program import MAX_ARGUMENT_BYTES
from ao_protocol.contracts.problems import Problem
from ao_protocol.json_path import below

_PLAIN_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class NotAnArgument(ValueError):
    """Parameters that fit their schema, and that no command line can carry."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return f"the parameters cannot be arguments: {'; '.join(map(str, self.problems))}"


def arguments_of(parameters: Mapping[str, JsonValue]) -> list[str]:
    """Return the arguments for checked parameters, in their order.

    `true` is `--key` alone; `false` and `null` are left out; a list is joined with commas, an object is compact
    JSON. What begins with a dash is written `--key=value`, so that no value can pass for another option.

    Raises:
        NotAnArgument: with every problem.
    """
    problems = [
        Problem(below("$", key), reason)
        for key, value in parameters.items()
        if (reason := _why_not(key, value)) is not None
    ]
    if problems:
        raise NotAnArgument(problems)
    return [argument for key, value in parameters.items() for argument in _option(key, value)]


def _option(key: str, value: JsonValue) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{key}"]
    text = _text_of(value)
    return [f"--{key}={text}"] if text.startswith("-") else [f"--{key}", text]


def _text_of(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ",".join(_text_of(element) for element in value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _why_not(key: str, value: JsonValue) -> str | None:
    if not _PLAIN_WORD.fullmatch(key):
        return "is not a valid option name; expected letters, digits, _ and -, and no - in front"
    if isinstance(value, list) and any(isinstance(element, list | dict) for element in value):
        return "is a list with lists or objects in it, which commas cannot join; pass an object"
    text = _text_of(value)
    if "\0" in text:
        return "holds a NUL character, which no argument can"
    if len(f"--{key}={text}".encode(errors="replace")) > MAX_ARGUMENT_BYTES:
        return f"is longer than the {MAX_ARGUMENT_BYTES} bytes that an argument may have; pass the name of a file"
    return None
