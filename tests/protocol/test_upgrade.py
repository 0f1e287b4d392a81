"""Invocations of 2.1 and 2.2, performed as if they had come in the form of 3.0."""

import pytest

from ao_protocol.documents import invocation_from_document
from ao_protocol.published import Vector, load_vectors
from ao_protocol.version import SchemaVersion, upgrade_invocation
from ao_protocol.wire import JsonObject


@pytest.mark.requirement("AOX-017")
def test_2_1_is_read_with_its_prompt_as_parameters() -> None:
    invocation = invocation_from_document(
        {
            "schema_version": "2.1",
            "mode": "start",
            "session_id": "ses_1",
            "prompt": "Hi",
            "output_schema_hint": {"type": "array"},
        }
    )

    assert invocation.schema_version == "2.1"
    assert invocation.parameters == {"prompt": "Hi"}
    assert invocation.output_schema == {"type": "array"}
    assert invocation.output_schema_source == "inline"


@pytest.mark.requirement("AOX-017")
def test_2_2_has_no_control_lines_whatever_it_says() -> None:
    invocation = invocation_from_document(
        {"schema_version": "2.2", "mode": "start", "parameters": {"prompt": "Hi"}, "control": {"stdin": "open"}}
    )

    assert invocation.control.stdin == "closed"


@pytest.mark.requirement("AOX-018")
def test_a_resume_of_2_2_may_name_the_executors_session() -> None:
    document: JsonObject = {
        "schema_version": "2.2",
        "mode": "resume",
        "session_id": "ses_1",
        "parameters": {"prompt": "And?"},
    }

    assert invocation_from_document(document).executor_session_id is None
    assert invocation_from_document({**document, "executor_session_id": "abc"}).executor_session_id == "abc"


@pytest.mark.parametrize("vector", load_vectors("upgrade"), ids=lambda vector: vector["id"])
def test_upgrading_twice_is_upgrading_once(vector: Vector) -> None:
    version = SchemaVersion.parse(vector["document"]["schema_version"])
    once = upgrade_invocation(dict(vector["document"]), version)

    assert upgrade_invocation(dict(once), version) == once


@pytest.mark.requirement("AOX-042")
def test_a_prompt_of_null_is_none_in_2_1_as_well() -> None:
    document: JsonObject = {"schema_version": "2.1", "mode": "start", "session_id": "ses_1", "prompt": None}

    assert invocation_from_document({**document, "parameters": {"prompt": "Hi"}}).parameters == {"prompt": "Hi"}
