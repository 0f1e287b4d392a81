"""Read a script from a JSON or YAML file, and say exactly where it is wrong when it is."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from ao_model_simulator.script import Answer, Script
from ao_model_simulator.script_problems import describe_problems

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
    """Return the script in the file, with the contents of every `text_file` in place.

    Raise `ScriptUnreadable` or `ScriptInvalid`.
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
