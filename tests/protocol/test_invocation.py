"""Invocations: read in the shape of 3.0 whatever they came in, or refused with everything that is wrong."""

import pytest

from ao_protocol.documents import (
    Control,
    InvocationRefused,
    Limits,
    RemoteMcpServer,
    StdioMcpServer,
    invocation_from_document,
)
from ao_protocol.errors import ErrorType
from ao_protocol.wire import JsonObject

SMALLEST: JsonObject = {"schema_version": "3.0", "mode": "start", "parameters": {"prompt": "Hi"}}


@pytest.mark.requirement("AOX-042")
def test_what_is_absent_or_null_has_its_default() -> None:
    absent = invocation_from_document(dict(SMALLEST))
    null = invocation_from_document({**SMALLEST, "limits": None, "control": None, "requires": None, "metadata": None})

    assert absent == null
    assert absent.limits == Limits()
    assert absent.control == Control(stdin="closed")
    assert absent.executor_config == {}


@pytest.mark.requirement("AOX-012")
def test_the_version_is_the_one_that_the_run_uses() -> None:
    assert invocation_from_document({**SMALLEST, "schema_version": "3.4"}).schema_version == "3.0"


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


@pytest.mark.requirement("AOX-041")
def test_a_refusal_names_every_problem_with_what_was_found() -> None:
    document: JsonObject = {"schema_version": "3.0", "mode": "restart", "limits": {"max_turns": 0}, "control": "open"}

    with pytest.raises(InvocationRefused) as refused:
        invocation_from_document(document)

    assert refused.value.error_type is ErrorType.INVALID_INVOCATION
    assert refused.value.details == {
        "problems": [
            "$.mode: input should be 'start' or 'resume', found 'restart'",
            "$.parameters: field required",
            "$.limits.max_turns: input should be greater than or equal to 1, found 0",
            "$.control: input should be a valid dictionary, found 'open'",
        ]
    }
    assert str(refused.value).startswith("invalid invocation: $.mode: input should be 'start' or 'resume'")


@pytest.mark.requirement("AOX-041")
def test_a_problem_shows_a_long_value_cut_short() -> None:
    with pytest.raises(InvocationRefused) as refused:
        invocation_from_document({**SMALLEST, "mode": "x" * 10_000})

    assert len(str(refused.value)) < 200


@pytest.mark.requirement("AOX-014")
def test_an_unknown_requirement_is_refused_by_name() -> None:
    with pytest.raises(InvocationRefused) as refused:
        invocation_from_document({**SMALLEST, "requires": ["time_travel"]})

    assert refused.value.error_type is ErrorType.UNSUPPORTED_CAPABILITY
    assert str(refused.value) == "the invocation requires time_travel, which this executor does not know"


@pytest.mark.requirement("AOX-053")
def test_a_resume_that_names_no_session_says_what_is_expected() -> None:
    with pytest.raises(InvocationRefused) as refused:
        invocation_from_document({**SMALLEST, "mode": "resume"})

    assert refused.value.details == {
        "problems": ["$: executor_session_id is missing; expected the one that session_bound announced"]
    }


def test_an_invocation_document_is_left_as_it_was() -> None:
    document: JsonObject = {"schema_version": "2.1", "mode": "start", "prompt": "Hi", "output_schema_hint": {}}
    invocation_from_document(document)

    assert document == {"schema_version": "2.1", "mode": "start", "prompt": "Hi", "output_schema_hint": {}}
