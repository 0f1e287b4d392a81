"""What is wrong with a script, in words for its author: the field, what was found, what was expected."""

import difflib
import json
from collections.abc import Iterable
from typing import Final

from pydantic_core import ErrorDetails

from ao_model_simulator.script import Answer, ApiError, Expectation, Script, ToolUseBlock, Usage

SHOWN_CHARS: Final = 80
CLOSE_ENOUGH: Final = 0.75
FIELD_NAMES: Final = sorted(
    field.alias or name
    for part in (Script, Answer, Expectation, ApiError, ToolUseBlock, Usage)
    for name, field in part.model_fields.items()
)
PHRASES: Final = (
    ("Value error, ", ""),
    ("Input should be greater", "a number greater"),
    ("Input should be less", "a number less"),
    ("Input should be ", ""),
    ("String should have ", "a string with "),
    ("List should have ", "a list with "),
)


def describe_problems(document: object, errors: Iterable[ErrorDetails]) -> list[str]:
    """Return one sentence per field that is wrong. `document` is the script as it was parsed."""
    found: dict[str, str] = {}
    expected: dict[str, list[str]] = {}
    for error in errors:
        path = _field_path(document, error)
        found.setdefault(path, _describe_found(error))
        expected.setdefault(path, []).append(_describe_expected(error))
    return [f"{path}: found {found[path]}; expected {' or '.join(expected[path])}" for path in found]


def _field_path(document: object, error: ErrorDetails) -> str:
    """Return the path in the author's document; pydantic's also names the members of unions."""
    path, value = "", document
    for part in error["loc"]:
        if isinstance(part, int):
            path += f"[{part}]"
            value = value[part] if isinstance(value, list) and part < len(value) else None
        elif isinstance(value, dict) and part in value:
            path += f".{part}"
            value = value[part]
    if error["type"] == "missing":
        path += f".{error['loc'][-1]}"
    return path.removeprefix(".") or "the script"


def _describe_found(error: ErrorDetails) -> str:
    if error["type"] == "missing":
        return "nothing"
    if error["type"] == "extra_forbidden":
        return "an unknown field"
    text = json.dumps(error["input"], ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def _describe_expected(error: ErrorDetails) -> str:
    if error["type"] == "missing":
        return "this field"
    if error["type"] in {"model_type", "model_attributes_type"}:
        return "an object"
    if error["type"] == "union_tag_invalid":
        return f"a type that is one of {error['ctx']['expected_tags']}"
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(error["loc"][-1]), FIELD_NAMES, n=1, cutoff=CLOSE_ENOUGH)
        return f"{near[0]}, perhaps" if near else "a field of the script reference"
    for start, phrase in PHRASES:
        if error["msg"].startswith(start):
            return phrase + error["msg"].removeprefix(start)
    return error["msg"]
