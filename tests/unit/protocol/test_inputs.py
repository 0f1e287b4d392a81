"""Inputs: parameters are checked before a model is asked, and arrive as text that no value can forge."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.documents import Invocation, invocation_from_document
from ao_protocol.inputs import (
    PROMPT_SCHEMA,
    ParametersInvalid,
    agent_text,
    check_parameters,
    format_inputs,
    parameters_schema_for,
)
from ao_protocol.wire import JsonObject

WRITER: JsonObject = {
    "type": "object",
    "required": ["topic"],
    "properties": {"topic": {"type": "string"}, "max_words": {"type": "integer"}},
    "additionalProperties": False,
}


def invocation(parameters: JsonObject, schema: JsonObject | None = None, mode: str = "start") -> Invocation:
    return invocation_from_document(
        {
            "schema_version": "3.0",
            "mode": mode,
            "parameters": parameters,
            "executor_session_id": "abc",
            "agent_blueprint": {"name": "writer", "parameters_schema": schema},
        }
    )


@pytest.mark.parametrize(
    ("mode", "schema", "decides"),
    [
        ("start", None, PROMPT_SCHEMA),
        ("start", WRITER, WRITER),
        ("resume", None, PROMPT_SCHEMA),
        ("resume", WRITER, PROMPT_SCHEMA),
    ],
    ids=["start", "start with schema", "resume", "resume with schema"],
)
@pytest.mark.requirement("AOX-141", "AOX-142", "AOX-143")
def test_the_schema_that_decides_is_the_blueprints_for_a_start_only(
    mode: str, schema: JsonObject | None, decides: JsonObject
) -> None:
    assert parameters_schema_for(invocation({}, schema, mode)) == decides


@pytest.mark.requirement("AOX-107", "AOX-140")
def test_parameters_that_do_not_fit_name_every_problem_and_the_schema() -> None:
    with pytest.raises(ParametersInvalid) as invalid:
        check_parameters(invocation({"prompt": "Hi", "max_words": "many"}, WRITER))

    assert sorted(str(problem) for problem in invalid.value.problems) == [
        '$.max_words: "many" is not of type "integer"',
        '$: "topic" is a required property',
        '$: Additional properties are not allowed ("prompt" was unexpected)',
    ]
    assert invalid.value.schema == WRITER


@given(st.text(min_size=1))
@pytest.mark.requirement("AOX-144")
def test_a_prompt_reaches_the_agent_as_it_is(prompt: str) -> None:
    assert agent_text(invocation({"prompt": prompt})) == prompt


HOSTILE = st.sampled_from(
    [
        *("<inputs>", "</inputs>", "< / INPUTS\n>", "<", "/", "inputs", ">", "&lt;", '"'),
        *("\n", "\r\n", "\u2028", "\x85", "\x0b", "key: x", ": ", "|", "  ", "a"),
    ]
)
TEXTS = st.lists(HOSTILE, max_size=8).map("".join) | st.text(max_size=20)
VALUES: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(TEXTS, children, max_size=3),
    max_leaves=6,
)
PARAMETERS = st.dictionaries(TEXTS | st.sampled_from(["topic", "max_words"]), VALUES, max_size=5)
TAG = re.compile(r"<\s*/?\s*inputs\b", re.IGNORECASE)
FIELD = re.compile(r'(?:[A-Za-z_][A-Za-z0-9_.-]*|"(?:[^"\\]|\\.)*"): ?')


@given(PARAMETERS)
@pytest.mark.requirement("AOX-151")
def test_no_key_and_no_value_closes_the_block_or_opens_another(parameters: JsonObject) -> None:
    block = format_inputs(parameters)

    assert block.startswith("<inputs>\n")
    assert block.endswith("\n</inputs>")
    assert len(TAG.findall(block)) == 2


@given(PARAMETERS)
@pytest.mark.requirement("AOX-152")
def test_only_a_parameter_begins_a_line_as_a_field(parameters: JsonObject) -> None:
    inner = format_inputs(parameters).splitlines()[1:-1]
    fields = [line for line in inner if not line.startswith("  ")]

    assert len(fields) == len(parameters)
    assert all(FIELD.match(line) for line in fields)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text(st.characters(codec="ascii", exclude_characters="<"))
    )
)
@pytest.mark.requirement("AOX-150")
def test_the_lines_of_a_text_can_be_read_back(parameters: dict[str, str]) -> None:
    read: dict[str, list[str]] = {}
    for line in format_inputs({**parameters}).splitlines()[1:-1]:
        if line.startswith("  ") and read and list(read.values())[-1][0] == "|":
            list(read.values())[-1].append(line[2:])
        else:
            key, _, text = line.partition(": ")
            read[key] = [text]

    for name, text in parameters.items():
        lines = text.splitlines() + ([""] if text and text[-1].splitlines() == [""] else [])
        assert read[name] == (['""'] if not text else lines if lines == [text] else ["|", *lines])
