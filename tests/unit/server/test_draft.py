"""The form of an agent: what it stands for, and what is wrong with it, where."""

import json
from typing import Any

import pytest

from ao_server.pages.draft import Draft, findings_of

DOCUMENTS: dict[str, dict[str, Any]] = {
    "small": {"name": "a", "type": "autonomous"},
    "whole": {
        "name": "a", "description": "d", "type": "procedural", "profile": "p", "command": "c", "tags": ["x", "y z"],
        "timeout_seconds": 1.5, "parameters_schema": {"type": "object"}, "output_schema": {"type": "array"},
        "executor_config": {"a": [1]}, "demands": {"tags": ["gpu"]}, "x-mine": {"é": "\u202e"},
    },
    "two schemas": {"name": "a", "type": "autonomous", "output_schema": {}, "default_output_schema": {"type": "null"}},
    "default": {"name": "a", "type": "autonomous", "default_output_schema": {"type": "null"}},
    "format": {"name": "a", "type": "autonomous", "output_format": {"type": "agent_response", "form": "markdown"}},
    "comma": {"name": "a", "type": "autonomous", "tags": ["x,y"]},
}  # fmt: skip


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_a_document_survives_the_form(document: dict[str, Any]) -> None:
    findings = findings_of(Draft.of(document))
    assert (findings.problems, findings.document) == ({}, document)


def _shown(draft: Draft) -> dict[str, list[tuple[str, int | None, str]]]:
    found = findings_of(draft).problems
    return {name: [(one.path, one.line, one.message) for one in problems] for name, problems in found.items()}


def test_a_fault_of_a_schema_has_path_and_line() -> None:
    schema = '{\n  "type": "object",\n  "properties": {\n    "age": {\n      "type": "intger"\n    }\n  }\n}'
    kinds = '["array", "boolean", "integer", "null", "number", "object", "string"]'
    assert _shown(Draft(name="a", input_schema=schema)) == {
        "input_schema": [("$.properties.age.type", 5, f'"intger" is not one of {kinds}')]
    }


@pytest.mark.parametrize("name", ["input_schema", "output_schema", "other"])
def test_a_syntax_error_has_line_and_column(name: str) -> None:
    assert _shown(Draft.model_validate({"name": "a", name: '{\n  "a": 1,\n}'})) == {
        name: [("$", 3, "not JSON: line 3, column 1: Expecting property name enclosed in double quotes")]
    }


def test_problems_stand_at_their_fields() -> None:
    draft = Draft(name="-", tags="", timeout_seconds="soon", other='{"demands": {"colour": 1}, "type": "autonomous"}')
    assert set(_shown(draft)) == {"name", "timeout_seconds", "other"}
    assert ("$.type", None, "has a field of its own in this form; write it there") in _shown(draft)["other"]


def test_a_name_that_is_missing_is_one_problem() -> None:
    assert _shown(Draft()) == {"name": [("$.name", None, "is missing")]}


def test_a_schema_contradicts_another_format_of_the_answer() -> None:
    (problem,) = _shown(Draft(name="a", answer="xml", output_schema="{}"))["answer"]
    assert "contradict each other" in problem[2]


def test_a_keyword_without_effect_is_remarked_on() -> None:
    findings = findings_of(Draft(name="a", output_schema=json.dumps({"minLenght": 2}), other='{"systemprompt": "x"}'))
    assert findings.count == 0
    assert [one.path for one in findings.output.remarks] == ["$.minLenght"]
    assert findings.remarks == ["$.systemprompt: unknown field, ignored; did you mean 'system_prompt'?"]
