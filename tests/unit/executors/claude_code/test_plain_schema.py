"""What the schema of a native answer looks like for the Claude CLI."""

from typing import Any

import pytest

from ao_executors.claude_code.claude_arguments import adapt_to_cli
from ao_protocol.contracts import native_schema


@pytest.mark.parametrize(
    ("schema", "plainly"),
    [
        pytest.param({"nullable": True, "x-origin": "crm", "title": "T"}, {"title": "T"}, id="unknown keywords"),
        pytest.param({"enum": [1, "1", 1.0, [1], [1.0]]}, {"enum": [1, "1", [1]]}, id="values equal to JavaScript"),
        pytest.param({"pattern": r"^[a-z]+(-\d{1,3})*$"}, {"pattern": r"^[a-z]+(-\d{1,3})*$"}, id="pattern"),
        pytest.param(
            {"pattern": r"\_", "description": "A name."},
            {"description": r"A name. Matches the regular expression \_"},
            id="pattern that Unicode mode refuses",
        ),
        pytest.param(
            {"$ref": "#/properties/n/shared/a", "shared": {"a": {"nullable": True, "type": "null"}}},
            {"$ref": "#/properties/n/shared/a", "shared": {"a": {"type": "null"}}},
            id="what is referred to stays",
        ),
    ],
)
def test_what_stricter_validators_refuse_is_left_out_or_said_in_words(
    schema: dict[str, Any], plainly: dict[str, Any]
) -> None:
    document = adapt_to_cli(native_schema({"type": "object", "properties": {"n": schema}}).document)

    assert document["properties"]["n"] == plainly
