"""The official JSON-Schema-Test-Suite, and which of its cases are decided otherwise here."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ao_protocol.contracts import InvalidSchema, check_schema, validator_for

SUITE = Path(__file__).parent / "draft7_suite"

REFUSED_SCHEMAS = {
    "const: float and integers are equal up to 64-bit representation limits": "outside ±9007199254740991",
    "bignum: maximum integer comparison": "outside ±9007199254740991",
    "bignum: minimum integer comparison": "outside ±9007199254740991",
    "definitions: validate definition against metaschema": "leads out of the schema",
    "ref: remote ref, containing refs itself": "leads out of the schema",
    "cross-draft: refs to future drafts are processed as future drafts": "leads out of the schema",
}

INVALID_HERE = {
    "bignum: integer: a bignum is an integer",
    "bignum: integer: a negative bignum is an integer",
    "bignum: number: a bignum is a number",
    "bignum: number: a negative bignum is a number",
}


def _groups() -> Iterator[Any]:
    for path in sorted(SUITE.rglob("*.json")):
        for group in json.loads(path.read_bytes()):
            # A contract is an object; `true` and `false` are schemas only inside one.
            if isinstance(group["schema"], dict):
                yield pytest.param(group, id=f"{path.stem}: {group['description']}")


@pytest.mark.parametrize("group", list(_groups()))
def test_verdicts_are_those_of_the_official_suite(group: dict[str, Any], request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.id
    if name in REFUSED_SCHEMAS:
        with pytest.raises(InvalidSchema, match=REFUSED_SCHEMAS[name]):
            check_schema(group["schema"])
        return
    validator = validator_for(group["schema"])
    expected = {
        test["description"]: test["valid"] and f"{name}: {test['description']}" not in INVALID_HERE
        for test in group["tests"]
    }

    assert {test["description"]: validator.is_valid(test["data"]) for test in group["tests"]} == expected
    assert {test["description"]: not [*validator.problems(test["data"])] for test in group["tests"]} == expected
