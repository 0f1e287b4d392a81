"""The simulated services refuse what the real ones refuse, with their status and their words."""

import json
from functools import reduce
from typing import Any

import pytest

from ao_model_simulator import ModelSimulator, Script, Verdict
from tests.conformance.test_model_sim_http import ask

TEXT = {"type": "string"}
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
GEMINI = "/v1beta/models/m:generateContent"
FIRST: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "Hi"}]},
    RESPONSES: {"input": "Hi"},
    MESSAGES: {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
    GEMINI: {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def strict(schema: object) -> dict[str, Any]:
    return {"text": {"format": {"type": "json_schema", "name": "v", "strict": True, "schema": schema}}}


def output(schema: object) -> dict[str, Any]:
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


def function(name: str = "f", **fields: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": name, "parameters": an_object(), **fields}}]}


def tool(name: str = "f", **fields: Any) -> dict[str, Any]:
    return {"name": name, "input_schema": {"type": "object"}, **fields}


def declared(parameters: object, name: str = "f") -> dict[str, Any]:
    return {"tools": [{"functionDeclarations": [{"name": name, "parameters": parameters}]}]}


def messages(*blocks: list[dict[str, Any]]) -> dict[str, Any]:
    roles = ["user", "assistant"] * len(blocks)
    return {"messages": [{"role": role, "content": part} for role, part in zip(roles, blocks, strict=False)]}


HI = [{"type": "text", "text": "Hi"}]
CALL = [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]
RESULT = [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]
CALLED = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
DEEP = reduce(lambda below, _: an_object(a=below), range(10), an_object(a=TEXT))
NO_TYPE = "In context=('properties', 'a'), schema must have a 'type' key."


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        (RESPONSES, strict(an_object(a={})), NO_TYPE),
        (RESPONSES, strict(an_object(a={"enum": ["x"]})), NO_TYPE),
        (RESPONSES, strict(an_object(a={"type": "array"})), "array schema missing items."),
        (
            RESPONSES,
            strict(an_object(a={"$ref": "#", "description": "d"})),
            "$ref cannot have keywords {'description'}.",
        ),
        (RESPONSES, strict({"type": "object", "properties": {}}), "'additionalProperties' is required to be supplied"),
        (RESPONSES, strict(an_object(a=TEXT) | {"required": []}), "including every key in properties. Missing 'a'."),
        (RESPONSES, strict(an_object() | {"required": ["b"]}), "Extra required key 'b' supplied."),
        (RESPONSES, strict(an_object(a={"oneOf": [TEXT]})), "'oneOf' is not permitted."),
        (RESPONSES, strict({"anyOf": [an_object()]}), "schema must be a JSON Schema of 'type: \"object\"'"),
        (RESPONSES, strict(DEEP), "11 levels of nesting exceeds limit of 10."),
        (RESPONSES, strict(an_object(**{f"a{n}": TEXT for n in range(5_001)})), "5001 object properties exceeds"),
        (RESPONSES, strict(an_object(a={**TEXT, "enum": [f"{n}" for n in range(1_001)]})), "1001 enum values exceeds"),
        (RESPONSES, strict(an_object(**{f"{n:0200}": TEXT for n in range(601)})), "120200 characters of names"),
        (
            RESPONSES,
            {"input": [{"type": "function_call_output", "call_id": "c1", "output": ""}]},
            "No tool call found for function call output with call_id c1.",
        ),
        (
            RESPONSES,
            {"input": [{"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}]},
            "No tool output found for function call c1.",
        ),
        (RESPONSES, {"tools": [{"type": "function", "name": "f", "parameters": {"anyOf": []}}]}, "at the top level."),
        (
            CHAT,
            {"response_format": {"type": "json_schema", "json_schema": {"name": "v", "strict": True, "schema": {}}}},
            "Invalid schema for response_format 'v'",
        ),
        (CHAT, function("a b"), "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."),
        (CHAT, function("f" * 65), "maximum length 64, but got a string with length 65 instead."),
        (CHAT, function(parameters=an_object(a={"type": "array"})), "array schema missing items."),
        (CHAT, function(parameters=an_object(a={}), strict=True), NO_TYPE),
        (
            CHAT,
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "f"}}]}]},
            "The following tool_call_ids did not have response messages: c1",
        ),
        (
            CHAT,
            {"messages": [{"role": "user", "content": "Hi"}, {"role": "tool", "tool_call_id": "c1", "content": ""}]},
            "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        ),
        (
            MESSAGES,
            {"tools": [tool("a b")]},
            "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
        ),
        (MESSAGES, {"tools": [tool(), tool()]}, "tools: Tool names must be unique."),
        (MESSAGES, {"tools": [tool(input_schema={})]}, "tools.0.custom.input_schema.type: Field required"),
        (MESSAGES, {"tools": [tool(input_schema={"type": "array"})]}, "input_schema.type: Input should be 'object'"),
        (
            MESSAGES,
            {"tools": [tool(input_schema={"type": "object", "anyOf": []})]},
            "input_schema does not support oneOf, allOf, or anyOf at the top level",
        ),
        (MESSAGES, messages(HI, CALL), "messages.1: `tool_use` ids were found without `tool_result` blocks"),
        (
            MESSAGES,
            messages(RESULT),
            "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: c1.",
        ),
        (MESSAGES, messages([{"type": "text", "text": ""}]), "messages: text content blocks must be non-empty"),
        (MESSAGES, output({"type": "object"}), "'additionalProperties' must be explicitly set to false"),
        (MESSAGES, output(an_object(a={"type": "integer", "minimum": 1})), "property 'minimum' is not supported"),
        (MESSAGES, output(an_object(a={"type": "array", "items": TEXT, "maxItems": 3})), "property 'maxItems' is not"),
        (
            GEMINI,
            declared({"type": "object"}, "1st"),
            "Invalid function name. Must start with a letter or an underscore.",
        ),
        (
            GEMINI,
            declared({"type": "object", "properties": {"a": {"const": "x"}}}),
            "Unknown name \"const\" at 'tools[0].function_declarations[0].parameters.properties[0].value': Cannot find",
        ),
        (
            GEMINI,
            declared({"type": "object", "properties": {"a": {**TEXT, "required": []}}}),
            "only allowed for OBJECT",
        ),
        (GEMINI, {"generationConfig": {"responseSchema": {"type": "OBJECT"}}}, "should be non-empty for OBJECT type"),
        (
            GEMINI,
            {"contents": [CALLED, {"role": "user", "parts": [{"text": "?"}]}]},
            "number of function response parts",
        ),
    ],
)
def test_what_a_service_refuses_is_refused_in_its_words(path: str, fields: dict[str, Any], words: str) -> None:
    with ModelSimulator(Script.from_answers([{"text": "Hi."}])) as sim:
        status, _, body = ask(sim, "POST", path, {"model": "m", **FIRST[path], **fields})

        assert status == 400
        assert words in json.loads(body)["error"]["message"]
        (request,) = sim.requests
        assert (request.verdict, sim.answers_left) == (Verdict.REFUSED, 1)
        assert [words in problem for problem in sim.find_problems()] == [True]


def test_a_refused_schema_of_the_responses_api_has_its_code_and_its_place() -> None:
    with ModelSimulator(Script.from_answers([])) as sim:
        _, _, body = ask(sim, "POST", RESPONSES, {"model": "m", "input": "Hi", **strict(an_object(a={}))})

    error = json.loads(body)["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_json_schema")
    assert (error["param"], error["message"]) == (
        "text.format.schema",
        f"Invalid schema for response_format 'v': {NO_TYPE}",
    )


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (
            RESPONSES,
            strict(an_object(a={"anyOf": [TEXT, {"type": "null"}]}, b={"type": "array", "items": {"$ref": "#"}})),
        ),
        (RESPONSES, {"previous_response_id": "r", "input": [{"type": "function_call_output", "call_id": "c1"}]}),
        (CHAT, function(parameters={"type": "object", "properties": {"a": {"enum": ["x"]}}})),
        (MESSAGES, {"tools": [tool()], **messages(HI, CALL, RESULT)}),
        (MESSAGES, output(an_object(a={"type": "array", "items": TEXT, "minItems": 1}))),
        (GEMINI, {"tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"const": 1}}]}]}),
    ],
)
def test_what_a_service_takes_is_answered(path: str, fields: dict[str, Any]) -> None:
    with ModelSimulator(Script.from_answers([{"text": "Hi."}])) as sim:
        status, _, _ = ask(sim, "POST", path, {"model": "m", **FIRST[path], **fields})

        assert (status, sim.find_problems()) == (200, [])
