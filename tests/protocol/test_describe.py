"""Descriptions: what an executor says of itself."""

import pytest

from ao_protocol.documents import Capabilities, Description, InvalidDescription, parse_description
from ao_protocol.framing import encode_line


@pytest.mark.requirement("AOX-121")
def test_what_is_not_said_is_not_there() -> None:
    description = parse_description(b'{"schema_versions":["3.0"],"executor":{"name":"x","version":"1"}}')

    assert description.capabilities == Capabilities(
        resume=False, multi_turn=False, cancel=False, streaming=False, check=False, trace=False, output_schema=False
    )
    assert description.agent_types == ["autonomous"]
    assert description.config_schema == {"type": "object"}
    assert description.secrets == []


@pytest.mark.requirement("AOX-121")
def test_a_description_made_here_names_the_versions_of_this_package() -> None:
    made = Description.model_validate({"executor": {"name": "x", "version": "1"}})

    assert made.schema_versions == ["3.0", "2.2", "2.1"]
    assert parse_description(encode_line(made.model_dump(exclude_none=True))) == made


@pytest.mark.requirement("AOX-121")
def test_the_versions_of_another_are_not_guessed() -> None:
    with pytest.raises(InvalidDescription) as invalid:
        parse_description(b'{"executor":{"name":"x","version":"1"}}')

    assert str(invalid.value) == "invalid description: $.schema_versions: field required"


def test_what_is_no_json_is_no_description() -> None:
    with pytest.raises(InvalidDescription, match="invalid description: not JSON"):
        parse_description(b"usage: ao-x-exec")
