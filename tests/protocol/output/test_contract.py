"""Which contract a run has."""

from typing import Any

import pytest

from ao_protocol.output.contract import (
    InvalidOptions,
    OutputContract,
    SchemaSource,
    ValidationMode,
    resolve_contract,
)
from ao_protocol.output.schema_vetting import InvalidSchema

DESIGNERS = {"type": "object"}
CALLERS = {"type": "array"}


def test_without_a_schema_there_is_no_contract() -> None:
    assert resolve_contract(None, None, {"max_retries": 5}) is None


@pytest.mark.requirement("AOX-160")
@pytest.mark.requirement("AOX-161")
def test_the_designers_schema_is_authoritative_and_gets_one_retry() -> None:
    contract = resolve_contract(DESIGNERS, CALLERS, {"max_retries": 5, "extract_json": False})

    assert contract == OutputContract(DESIGNERS, SchemaSource.BLUEPRINT, max_retries=1)
    assert contract.error_type == "output_schema_validation_failed"


def test_the_callers_schema_holds_where_the_designer_has_none() -> None:
    contract = resolve_contract(None, CALLERS)

    assert contract == OutputContract(
        CALLERS,
        SchemaSource.INLINE,
        max_retries=2,
        extract_json=True,
        strict_json_only=False,
        validation_mode=ValidationMode.STRICT,
    )
    assert contract.error_type == "schema_validation_failed"


def test_the_callers_options_are_taken_over() -> None:
    options = {"max_retries": 0, "extract_json": False, "strict_json_only": True, "validation_mode": "lenient"}

    assert resolve_contract(None, CALLERS, options) == OutputContract(
        CALLERS,
        SchemaSource.INLINE,
        max_retries=0,
        extract_json=False,
        strict_json_only=True,
        validation_mode=ValidationMode.LENIENT,
    )


def test_an_option_that_is_null_is_absent() -> None:
    assert resolve_contract(None, CALLERS, {"max_retries": None}) == resolve_contract(None, CALLERS)


def test_an_empty_schema_is_a_contract() -> None:
    assert resolve_contract({}, None) == OutputContract({}, SchemaSource.BLUEPRINT, max_retries=1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(
            {"max_retry": 1},
            "$.output_schema_options.max_retry: is not known; known are "
            "'extract_json', 'max_retries', 'strict_json_only', 'validation_mode'",
            id="unknown",
        ),
        pytest.param(
            {"max_retries": 11},
            "$.output_schema_options.max_retries: expected an integer from 0 to 10, found 11",
            id="too many retries",
        ),
        pytest.param(
            {"max_retries": True},
            "$.output_schema_options.max_retries: expected an integer from 0 to 10, found True",
            id="a boolean is no number of retries",
        ),
        pytest.param(
            {"extract_json": "yes"},
            "$.output_schema_options.extract_json: expected true or false, found 'yes'",
            id="no boolean",
        ),
        pytest.param(
            {"validation_mode": "loose"},
            "$.output_schema_options.validation_mode: expected 'strict' or 'lenient', found 'loose'",
            id="unknown mode",
        ),
    ],
)
@pytest.mark.parametrize("designers", [pytest.param(None, id="callers"), pytest.param(DESIGNERS, id="designers")])
def test_an_option_that_means_nothing_is_an_error(
    designers: dict[str, Any] | None, options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InvalidOptions) as caught:
        resolve_contract(designers, CALLERS, options)

    assert str(caught.value) == expected


def test_a_schema_that_holds_is_vetted_and_one_that_does_not_is_left_alone() -> None:
    broken = {"type": "strin"}

    assert resolve_contract(DESIGNERS, broken) is not None
    with pytest.raises(InvalidSchema):
        resolve_contract(None, broken)
