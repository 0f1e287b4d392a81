"""Invocations, control lines, descriptions: what the models hold, and the words of a refusal. Vectors have verdicts."""

import pytest

from ao_protocol.control_lines import (
    Cancel,
    ControlLine,
    InputResponse,
    InvalidControlLine,
    Shutdown,
    Turn,
    parse_control_line,
)
from ao_protocol.documents import (
    Capabilities,
    Control,
    Description,
    InvalidDescription,
    InvocationRefused,
    Limits,
    RemoteMcpServer,
    StdioMcpServer,
    invocation_from_document,
    parse_description,
)
from ao_protocol.framing import encode_line
from ao_protocol.published import Vector, load_vectors
from ao_protocol.version import SUPPORTED, SchemaVersion, supported_texts, upgrade_invocation
from ao_protocol.wire import JsonObject

SMALLEST: JsonObject = {"schema_version": "3.0", "mode": "start", "parameters": {"prompt": "Hi"}}


@pytest.mark.requirement("AOX-042")
def test_what_is_absent_or_null_has_its_default() -> None:
    absent = invocation_from_document(dict(SMALLEST))
    null = invocation_from_document({**SMALLEST, "limits": None, "control": None, "requires": None, "metadata": None})

    assert absent == null
    assert (absent.limits, absent.control, absent.executor_config) == (Limits(), Control(stdin="closed"), {})


@pytest.mark.requirement("AOX-012", "AOX-017")
@pytest.mark.parametrize(
    ("document", "version", "parameters", "output_schema"),
    [
        ({**SMALLEST, "schema_version": "3.4"}, "3.0", {"prompt": "Hi"}, None),
        (
            {"schema_version": "2.1", "mode": "start", "prompt": "Hi", "output_schema_hint": {"type": "array"}},
            "2.1",
            {"prompt": "Hi"},
            {"type": "array"},
        ),
        ({**SMALLEST, "schema_version": "2.1", "prompt": None}, "2.1", {"prompt": "Hi"}, None),
        ({**SMALLEST, "schema_version": "2.2", "control": {"stdin": "open"}}, "2.2", {"prompt": "Hi"}, None),
    ],
    ids=["a later minor", "2.1", "2.1 with a prompt of null", "2.2 knows no control lines"],
)
def test_an_invocation_of_any_version_has_the_shape_of_3_0(
    document: JsonObject, version: str, parameters: JsonObject, output_schema: JsonObject | None
) -> None:
    before = dict(document)

    invocation = invocation_from_document(document)

    assert (invocation.schema_version, invocation.parameters) == (version, parameters)
    assert (invocation.output_schema, invocation.control.stdin) == (output_schema, "closed")
    assert document == before


@pytest.mark.requirement("AOX-018")
def test_a_resume_of_2_2_may_name_the_executors_session() -> None:
    document: JsonObject = {**SMALLEST, "schema_version": "2.2", "mode": "resume", "session_id": "ses_1"}

    assert invocation_from_document(document).executor_session_id is None
    assert invocation_from_document({**document, "executor_session_id": "abc"}).executor_session_id == "abc"


@pytest.mark.parametrize("vector", load_vectors("upgrade"), ids=lambda vector: vector["id"])
def test_upgrading_twice_is_upgrading_once(vector: Vector) -> None:
    version = SchemaVersion.parse(vector["document"]["schema_version"])
    once = upgrade_invocation(dict(vector["document"]), version)

    assert upgrade_invocation(dict(once), version) == once


@pytest.mark.requirement("AOX-121")
def test_supported_versions_are_named_newest_first() -> None:
    made = Description.model_validate({"executor": {"name": "x", "version": "1"}})

    assert made.schema_versions == supported_texts() == ["3.0", "2.2", "2.1"]
    assert list(SUPPORTED) == sorted(SUPPORTED, reverse=True)
    assert SchemaVersion.parse("3.10") > SchemaVersion.parse("3.9")
    assert parse_description(encode_line(made.model_dump(exclude_none=True))) == made


@pytest.mark.requirement("AOX-050")
def test_an_mcp_server_without_type_is_a_program() -> None:
    servers: JsonObject = {"a": {"command": "x", "args": ["-v"]}, "b": {"type": "sse", "url": "https://b.example"}}
    blueprint = invocation_from_document(
        {**SMALLEST, "agent_blueprint": {"name": "agent", "mcp_servers": servers}}
    ).agent_blueprint

    assert blueprint is not None
    assert blueprint.mcp_servers == {
        "a": StdioMcpServer(command="x", args=["-v"]),
        "b": RemoteMcpServer(type="sse", url="https://b.example"),
    }


UNUSUAL_SERVERS: JsonObject = {
    "agent_blueprint": {
        "name": "a",
        "mcp_servers": {"b": {"url": "https://b.example"}, "c": {"type": "streamable-http", "url": "https://c"}},
    }
}


@pytest.mark.requirement("AOX-011", "AOX-014", "AOX-041", "AOX-053")
@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (
            {"schema_version": "3.0", "mode": "restart", "limits": {"max_turns": 0}, "control": "open"},
            'invalid invocation: $.mode: input should be "start" or "resume", found "restart"; '
            '$: "parameters" is a required property; '
            "$.limits.max_turns: input should be greater than or equal to 1, found 0; "
            '$.control: input should be a valid dictionary, found "open"',
        ),
        (
            {**SMALLEST, **UNUSUAL_SERVERS},
            "invalid invocation: $.agent_blueprint.mcp_servers.b: url without type; write type: http, or type: sse, "
            "beside it; $.agent_blueprint.mcp_servers.c.type: expected stdio, http or sse, found 'streamable-http'",
        ),
        (
            {**SMALLEST, "mode": "x" * 10_000},
            'invalid invocation: $.mode: input should be "start" or "resume", found "' + "x" * 79 + "…",
        ),
        (
            {**SMALLEST, "mode": "resume"},
            "invalid invocation: $: executor_session_id is missing; expected the one that session_bound announced",
        ),
        (
            {**SMALLEST, "requires": ["time_travel"]},
            "the invocation requires time_travel, which this executor does not know",
        ),
        (
            {**SMALLEST, "schema_version": "4.0"},
            "schema_version 4.0 is not supported; supported are 3.0, 2.2, 2.1",
        ),
        (
            {**SMALLEST, "schema_version": 3.0},
            'invalid invocation: $.schema_version: schema_version is 3.0, expected a string such as "3.0"',
        ),
    ],
    ids=[
        "every problem",
        "MCP servers",
        "a long value",
        "a resume without session",
        "a requirement",
        "a major version",
        "a number",
    ],
)
def test_a_refusal_says_what_was_found_and_expected(document: JsonObject, sentence: str) -> None:
    with pytest.raises(InvocationRefused) as refused:
        invocation_from_document(document)

    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        (b'{"type":"cancel","reason":"user"}', Cancel(reason="user")),
        (b'{"type":"turn","run_id":"r","parameters":{"a":1}}', Turn(run_id="r", parameters={"a": 1})),
        (b'{"type":"shutdown"}', Shutdown()),
        (b'{"type":"input_response","request_id":"q1","value":[1]}', InputResponse(request_id="q1", value=[1])),
    ],
    ids=["cancel", "turn", "shutdown", "input_response"],
)
def test_a_control_line_is_read_by_its_type(line: bytes, meaning: ControlLine) -> None:
    assert parse_control_line(line) == meaning


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"stop!", "not JSON: Expecting value at character 0"),
        (b"{}", "$: expected a type, a string, found null"),
        (
            b'{"type":"turn","run_id":7}',
            '$.run_id: input should be a valid string, found 7; $: "parameters" is a required property',
        ),
    ],
    ids=["no JSON", "no type", "fields"],
)
@pytest.mark.requirement("AOX-062")
def test_a_malformed_control_line_says_what_is_wrong(line: bytes, problem: str) -> None:
    with pytest.raises(InvalidControlLine) as invalid:
        parse_control_line(line)

    assert str(invalid.value) == f"invalid control line: {problem}"


@pytest.mark.requirement("AOX-121")
def test_what_a_description_does_not_say_is_not_there() -> None:
    description = parse_description(b'{"schema_versions":["3.0"],"executor":{"name":"x","version":"1"}}')

    assert not any(Capabilities.model_dump(description.capabilities).values())
    assert (description.agent_types, description.config_schema) == (["autonomous"], {"type": "object"})
    assert description.secrets == []


@pytest.mark.requirement("AOX-121")
@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"executor":{"name":"x","version":"1"}}', '$: "schema_versions" is a required property'),
        (b"usage: ao-x-exec", "not JSON: Expecting value at character 0"),
    ],
    ids=["the versions of another are not guessed", "no JSON"],
)
def test_a_malformed_description_says_what_is_wrong(line: bytes, problem: str) -> None:
    with pytest.raises(InvalidDescription) as invalid:
        parse_description(line)

    assert str(invalid.value) == f"invalid description: {problem}"
