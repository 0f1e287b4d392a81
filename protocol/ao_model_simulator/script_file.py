"""Read a script from a JSON or YAML file, and say where it is wrong: the field, what was found, what was expected."""

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ao_model_simulator.script import Answer, ApiError, Expectation, Script, ToolUseBlock, Usage

YAML_SUFFIXES: Final = frozenset({".yaml", ".yml"})


class ScriptError(Exception):
    """The script cannot be used; the message is for its author."""


@dataclass(eq=False)
class ScriptUnreadable(ScriptError):
    """The file is missing, or is no JSON or YAML."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(eq=False)
class ScriptInvalid(ScriptError):
    """The file is no script. Each problem names the field, what was found and what was expected."""

    path: Path
    problems: list[str]

    def __str__(self) -> str:
        return "\n".join(f"{self.path}: {problem}" for problem in self.problems)


def load_script(path: Path) -> Script:
    """Read a script.

    Args:
        path: A JSON file, or a YAML file by the suffix `.yaml` or `.yml`.

    Returns:
        The script, with the contents of every `text_file` in place.

    Raises:
        ScriptUnreadable: The file is missing, or is not JSON or YAML. A `ScriptError`.
        ScriptInvalid: The file is not a script; the message names each wrong field. A `ScriptError`.
    """
    document = _parse(path)
    try:
        script = Script.model_validate(document)
    except ValidationError as error:
        raise ScriptInvalid(path, describe_problems(document, error.errors())) from None
    return fill_text_files(script, path)


def script_document(script: Script) -> dict[str, Any]:
    """Return the script as JSON data that is the same script without any other file."""
    document = script.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for answer in document["answers"]:
        if answer.get("text_file", "") is None:
            del answer["text_file"]
    return document


def fill_text_files(script: Script, path: Path) -> Script:
    """Return the script with the contents of every `text_file`, found relative to the script's own path.

    Raise `ScriptInvalid`.
    """
    answers = [_with_text(path, index, answer) for index, answer in enumerate(script.answers)]
    return script.model_copy(update={"answers": answers})


def _parse(path: Path) -> object:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ScriptUnreadable(path, f"cannot read the script: {reason}") from error
    if path.suffix.lower() in YAML_SUFFIXES:
        return _parse_yaml(path, text)
    try:
        document: object = json.loads(text)
    except ValueError as error:
        raise ScriptUnreadable(path, f"the script is not JSON: {error}") from error
    return document


def _parse_yaml(path: Path, text: str) -> object:
    try:
        import yaml
    except ImportError as error:
        raise ScriptUnreadable(path, "a YAML script needs PyYAML, which the extra [cli] installs") from error
    try:
        document: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ScriptUnreadable(path, f"the script is not YAML: {error}") from error
    return document


def _with_text(script_path: Path, index: int, answer: Answer) -> Answer:
    if answer.text_file is None:
        return answer
    path = script_path.parent / answer.text_file
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = f"answers[{index}].text_file: found {answer.text_file!r}; expected a readable UTF-8 file"
        raise ScriptInvalid(script_path, [problem]) from error
    return answer.model_copy(update={"text": text, "text_file": None})


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
