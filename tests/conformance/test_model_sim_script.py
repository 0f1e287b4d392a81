"""What a script may say, and what its author is told when it says something else."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ValidationError

from ao_model_simulator import Answer, Expectation, Script, ScriptError, load_script

DIALECT = "https://json-schema.org/draft/2020-12/schema"

VALID: dict[str, dict[str, Any]] = {
    "text": {"text": "Hello."},
    "empty text": {"text": ""},
    "text many times": {"text": "x", "text_times": 9},
    "json object": {"json": {"a": [1, None]}},
    "json null": {"json": None},
    "blocks": {"content": [{"type": "thinking", "thinking": "hm"}, {"type": "tool_use", "name": "Bash"}]},
    "status alone": {"status": 429, "headers": {"retry-after": "3"}, "error": {"message": "slow down"}},
    "stall alone": {"stall": True},
    "stall in content": {"text": "x", "stall_after_chars": 0},
    "cut in content": {"text": "x", "cut": True},
    "malformed content": {"json": 1, "malformed": True},
    "error in stream": {"text": "x", "stream_error": {"type": "overloaded_error"}},
    "no stall": {"text": "x", "stall": False},
    "null fault": {"text": "x", "cut_after_chars": None},
    "forever": {"text": "x", "repeat": "forever"},
    "expectation": {"text": "x", "expect": {"system_contains": ["a", "b"], "messages_count": 1}},
}
INVALID: dict[str, dict[str, Any]] = {
    "nothing": {},
    "null text": {"text": None},
    "two sources": {"text": "x", "json": 1},
    "content with status": {"text": "x", "status": 500},
    "content with stall": {"text": "x", "stall": True},
    "two faults": {"text": "x", "cut": True, "malformed": True},
    "cut twice, once after nothing": {"text": "x", "cut_after_chars": 0, "stall_after_chars": 0},
    "stalled status": {"status": 500, "stall": True},
    "error without status": {"text": "x", "error": {"message": "m"}},
    "times without text": {"json": 1, "text_times": 2},
    "unknown field": {"text": "x", "chunk_char": 1},
    "flag as word": {"text": "x", "cut": "yes"},
    "empty content": {"content": []},
    "unknown block": {"content": [{"type": "image"}]},
    "tool without name": {"content": [{"type": "tool_use"}]},
    "successful status": {"status": 200},
    "zero repeats": {"text": "x", "repeat": 0},
    "unknown stop reason": {"text": "x", "stop_reason": "bored"},
    "header that breaks the line": {"text": "x", "headers": {"a": "b\r\nc: d"}},
}


@pytest.fixture(scope="module")
def schema() -> Any:
    return json.loads(files("ao_model_simulator").joinpath("script.schema.json").read_text())


def test_the_published_schema_is_the_one_of_the_model(schema: Any) -> None:
    assert schema == {"$schema": DIALECT, **Script.model_json_schema()}


@pytest.mark.parametrize("answer", VALID.values(), ids=VALID.keys())
def test_model_and_schema_accept_the_same_answers(answer: dict[str, Any], schema: Any) -> None:
    Script.from_answers([answer])
    assert Draft202012Validator(schema).is_valid({"answers": [answer]})


@pytest.mark.parametrize("answer", INVALID.values(), ids=INVALID.keys())
def test_model_and_schema_refuse_the_same_answers(answer: dict[str, Any], schema: Any) -> None:
    with pytest.raises(ValidationError):
        Script.from_answers([answer])
    assert not Draft202012Validator(schema).is_valid({"answers": [answer]})


@pytest.mark.parametrize("name", ["script.json", "script.yaml"])
def test_a_script_is_read_from_json_and_from_yaml(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text('{"$schema": "./script.schema.json", "answers": [{"text": "Hello."}]}')
    assert [answer.text for answer in load_script(path).answers] == ["Hello."]


def test_a_text_file_is_found_next_to_the_script(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("Hello. ")
    path = tmp_path / "script.json"
    path.write_text('{"answers": [{"text_file": "long.txt", "text_times": 2}]}')
    (block,) = load_script(path).answers[0].blocks
    assert block.model_dump() == {"type": "text", "text": "Hello. Hello. "}


FAULTY = {
    "no json": ("{", "the script is not JSON: Expecting property name"),
    "a list": ("[1]", "the script: found [1]; expected an object"),
    "no answers": ("{}", "answers: found nothing; expected this field"),
    "typing error": (
        '{"answers": [{"text": "a", "chunk_char": 3}]}',
        "answers[0].chunk_char: found an unknown field; expected chunk_chars, perhaps",
    ),
    "wrong value": (
        '{"answers": [{"text": "a"}, {"text": "a", "chunk_chars": 0}]}',
        "answers[1].chunk_chars: found 0; expected a number greater than or equal to 1",
    ),
    "union": (
        '{"answers": [{"text": "a", "repeat": "often"}]}',
        "answers[0].repeat: found \"often\"; expected a valid integer or 'forever'",
    ),
    "inside a block": (
        '{"answers": [{"content": [{"type": "tool_use"}]}]}',
        "answers[0].content[0].name: found nothing; expected this field",
    ),
    "unknown block": (
        '{"answers": [{"content": [{"type": "image"}]}]}',
        "answers[0].content[0]: found {\"type\": \"image\"}; expected a type that is one of 'text', 'thinking'",
    ),
    "contradiction": (
        '{"answers": [{"text": "a", "stall": true}]}',
        "expected no text, because stall leaves no content",
    ),
    "unreachable": (
        '{"answers": [{"text": "a", "repeat": "forever"}, {"text": "b"}]}',
        "expected no answer after answers[0], which repeats forever",
    ),
    "missing text file": (
        '{"answers": [{"text_file": "none.txt"}]}',
        "answers[0].text_file: found 'none.txt'; expected a readable UTF-8 file",
    ),
}


@pytest.mark.parametrize(("text", "message"), FAULTY.values(), ids=FAULTY.keys())
def test_an_error_names_the_file_and_the_field(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(text)
    with pytest.raises(ScriptError) as caught:
        load_script(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"none\.json: cannot read the script: No such file"):
        load_script(tmp_path / "none.json")


def test_yaml_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text("answers: [")
    with pytest.raises(ScriptError, match=r"script\.yaml: the script is not YAML"):
        load_script(path)


DOCUMENTATION = (Path(__file__).parents[2] / "docs" / "model-simulator.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", re.findall(r"```yaml\n(.*?)```", DOCUMENTATION, re.DOTALL), ids=["first", "tour"])
def test_the_scripts_in_the_documentation_are_valid(tmp_path: Path, example: str) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(example)
    assert load_script(path).answers


@pytest.mark.parametrize("part", [Script, Answer, Expectation])
def test_the_documentation_names_every_field(part: type[BaseModel]) -> None:
    names = {field.alias or name for name, field in part.model_fields.items()}
    assert {name for name in names if not re.search(rf"`{re.escape(name)}\b", DOCUMENTATION)} == set()
