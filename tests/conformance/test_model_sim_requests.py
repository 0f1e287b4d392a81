"""What was asked is told in one form, whatever the API."""

import base64
import hashlib
import json
from typing import Any

import pytest

from ao_model_simulator import Expectation, ModelRequest
from ao_model_simulator.playback import find_mismatches, find_missing_fields

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
PARAMETERS = {"type": "object"}

REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic": (
        "/v1/messages?beta=true",
        {
            "model": "m",
            "max_tokens": 9,
            "stream": True,
            "system": [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "Be brief."}],
            "tools": [{"name": "Bash", "description": "runs", "input_schema": PARAMETERS}],
            "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "First."}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "I look."},
                        {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a.txt"}]},
                        {"type": "text", "text": "Second."},
                    ],
                },
            ],
        },
    ),
    "openai-chat": (
        "/v1/chat/completions",
        {
            "model": "m",
            "stream": True,
            "tools": [
                {"type": "function", "function": {"name": "Bash", "description": "runs", "parameters": PARAMETERS}}
            ],
            "response_format": {"type": "json_schema", "json_schema": {"name": "v", "schema": SCHEMA}},
            "messages": [
                {"role": "system", "content": "Be kind."},
                {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
                {"role": "user", "content": "First."},
                {
                    "role": "assistant",
                    "content": "I look.",
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "Bash", "arguments": '{"command": "ls"}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
                {"role": "user", "content": [{"type": "text", "text": "Second."}]},
            ],
        },
    ),
    "openai-responses": (
        "/v1/responses",
        {
            "model": "m",
            "stream": True,
            "instructions": "Be kind.",
            "tools": [{"type": "function", "name": "Bash", "description": "runs", "parameters": PARAMETERS}],
            "text": {"format": {"type": "json_schema", "name": "v", "schema": SCHEMA}},
            "input": [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": "First."},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
                {"type": "function_call", "call_id": "c1", "name": "Bash", "arguments": '{"command": "ls"}'},
                {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
                {"role": "user", "content": [{"type": "input_text", "text": "Second."}]},
            ],
        },
    ),
    "gemini": (
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        {
            "systemInstruction": {"parts": [{"text": "Be kind."}, {"text": "Be brief."}]},
            "tools": [
                {"functionDeclarations": [{"name": "Bash", "description": "runs", "parametersJsonSchema": PARAMETERS}]}
            ],
            "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA},
            "contents": [
                {"role": "user", "parts": [{"text": "First."}]},
                {
                    "role": "model",
                    "parts": [
                        {"text": "I look."},
                        {"functionCall": {"id": "c1", "name": "Bash", "args": {"command": "ls"}}},
                    ],
                },
                {
                    "role": "user",
                    "parts": [{"functionResponse": {"id": "c1", "name": "Bash", "response": {"result": "a.txt"}}}],
                },
                {"role": "user", "parts": [{"text": "Second."}]},
            ],
        },
    ),
}


def a_request(kind: str) -> ModelRequest:
    path, body = REQUESTS[kind]
    return ModelRequest("POST", path, {}, body)


@pytest.mark.parametrize("kind", REQUESTS)
def test_the_same_conversation_reads_the_same_in_every_api(kind: str) -> None:
    request, first = a_request(kind), a_request("anthropic")
    assert request.kind == kind
    assert list(request.messages) == list(first.messages)
    assert list(request.tools) == [{"name": "Bash", "description": "runs", "input_schema": {"type": "object"}}]
    assert (request.model, request.wants_stream, request.response_schema) == ("m", True, SCHEMA)
    assert list(request.system_blocks) == ["Be kind.", "Be brief."]
    assert (request.last_user_text, request.tool_result_text) == ("Second.", "a.txt")


@pytest.mark.parametrize("kind", REQUESTS)
def test_an_expectation_means_the_same_in_every_api(kind: str) -> None:
    expectation = {
        "model": "m",
        "stream": True,
        "system_contains": ["kind", "brief"],
        "system_ends_with": "Be brief.",
        "system_lacks": "Be rude.",
        "conversation_contains_once": ["First.", "Second."],
        "last_user_equals": "Second.",
        "tool_result_contains": "a.txt",
        "messages_count": 3,
        "tool_names_include": ["Bash"],
        "tool_names_exclude": ["Read"],
        "any_tool_result_contains": "a.txt",
        "schema_contains": [json.dumps(SCHEMA), json.dumps(PARAMETERS)],
    }
    assert find_mismatches(Expectation.model_validate(expectation), a_request(kind)) == []


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/v1/chat/completions", "the body has no 'messages', which the Chat Completions API requires"),
        ("/v1/responses", "the body has no 'input', which the Responses API requires"),
        ("/v1beta/models/m:generateContent", "the body has no 'contents', which the Gemini API requires"),
    ],
)
def test_each_api_has_its_own_required_fields(path: str, message: str) -> None:
    assert find_missing_fields(ModelRequest("POST", path, {}, {"model": "m"})) == [message]


def test_the_input_of_a_response_may_be_a_text() -> None:
    request = ModelRequest("POST", "/v1/responses", {}, {"model": "m", "input": "Hi"})
    assert (request.last_user_text, request.wants_stream, request.response_schema) == ("Hi", False, None)


def test_json_of_protocol_buffers_may_use_snake_case() -> None:
    body: Any = {"system_instruction": {"parts": [{"text": "Be kind."}]}, "contents": [{"parts": [{"text": "Hi"}]}]}
    request = ModelRequest("POST", "/v1/models/m:generateContent", {}, body)
    assert (request.kind, request.system_text, request.last_user_text) == ("gemini", "Be kind.", "Hi")


STRANGE: list[Any] = [
    None,
    "text",
    [],
    {"messages": 7, "input": 7, "contents": 7, "tools": "x", "instructions": 7, "text": []},
    {"messages": [{}], "input": [{}], "contents": [{"parts": [7, {}]}], "tools": [{}]},
    {
        "messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": "{"}}]}],
        "input": [{"type": "function_call", "arguments": "{"}, {"type": "function_call_output"}, {"type": 7}],
        "contents": [{"role": 7, "parts": [{"functionCall": {"name": 7}}, {"functionResponse": {"response": 7}}]}],
    },
]


@pytest.mark.parametrize("body", STRANGE)
@pytest.mark.parametrize("path", [path for path, _ in REQUESTS.values()], ids=REQUESTS)
def test_a_strange_body_can_be_asked_like_any_other(path: str, body: Any) -> None:
    request = ModelRequest("POST", path, {}, body)
    assert (request.system_text, request.last_user_text, request.response_schema) == ("", "", None)
    assert request.tool_result_text is not None


PNG = base64.b64encode(b"a picture").decode()
DIGEST = hashlib.sha256(b"a picture").hexdigest()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(
            "/v1/messages",
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
                        ],
                    }
                ]
            },
            id="anthropic",
        ),
        pytest.param(
            "/v1/chat/completions",
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}],
                    }
                ]
            },
            id="openai-chat",
        ),
        pytest.param(
            "/v1/responses",
            {
                "input": [
                    {"role": "user", "content": [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}]}
                ]
            },
            id="openai-responses",
        ),
        pytest.param(
            "/v1beta/models/m:generateContent",
            {"contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}]}]},
            id="gemini",
        ),
    ],
)
def test_the_files_of_a_request_are_listed_by_type_and_digest(path: str, body: dict[str, Any]) -> None:
    assert ModelRequest("POST", path, {}, body).files_text == f"image/png {DIGEST}"
