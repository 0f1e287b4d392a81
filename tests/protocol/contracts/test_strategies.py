"""By which strategy a model is asked, and what a provider is handed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.contracts.contract import (
    MAX_NATIVE_BYTES,
    AgentResponseFormat,
    JsonFormat,
    OutputContract,
    SchemaSource,
    Strategy,
    StrategyNotOffered,
    native_schema,
    with_strategy,
)
from ao_protocol.contracts.validation import is_valid

SCHEMA = {"type": "object", "required": ["n"]}
LARGE = {"type": "object", "description": "x" * MAX_NATIVE_BYTES}
ALL = ["system_prompt", "prompt", "extract", "native"]
WORDS_ONLY = ["system_prompt", "extract"]


def chosen(wanted: Strategy | None, offered: list[str], schema: dict[str, Any] = SCHEMA) -> Strategy | None:
    return with_strategy(OutputContract(JsonFormat(schema), SchemaSource.INLINE, strategy=wanted), offered).strategy


@pytest.mark.parametrize(
    ("wanted", "offered", "expected"),
    [
        (None, ALL, Strategy.SYSTEM_PROMPT),
        (None, ["extract"], Strategy.EXTRACT),
        (Strategy.PROMPT, ALL, Strategy.PROMPT),
        (Strategy.EXTRACT, ALL, Strategy.EXTRACT),
        (Strategy.NATIVE, ALL, Strategy.NATIVE),
        (Strategy.AUTO, ALL, Strategy.NATIVE),
        (Strategy.AUTO, WORDS_ONLY, Strategy.SYSTEM_PROMPT),
        (Strategy.AUTO, ["prompt"], Strategy.PROMPT),
    ],
)
def test_the_strategy_is_one_that_the_executor_has(
    wanted: Strategy | None, offered: list[str], expected: Strategy
) -> None:
    assert chosen(wanted, offered) is expected


@pytest.mark.parametrize(
    ("wanted", "offered", "expected"),
    [
        (None, ALL, Strategy.PROMPT),
        (Strategy.SYSTEM_PROMPT, ALL, Strategy.PROMPT),
        (Strategy.EXTRACT, ALL, Strategy.EXTRACT),
        (Strategy.AUTO, ALL, Strategy.NATIVE),
        (None, WORDS_ONLY, Strategy.SYSTEM_PROMPT),
    ],
)
def test_a_resume_is_asked_in_its_prompt(wanted: Strategy | None, offered: list[str], expected: Strategy) -> None:
    contract = OutputContract(JsonFormat(SCHEMA), SchemaSource.INLINE, strategy=wanted)

    assert with_strategy(contract, offered, is_resume=True).strategy is expected


def test_auto_says_in_words_what_is_too_long_for_a_provider() -> None:
    assert chosen(Strategy.AUTO, ALL, LARGE) is Strategy.SYSTEM_PROMPT


def test_auto_asks_for_a_response_in_words() -> None:
    contract = OutputContract(AgentResponseFormat("json"), SchemaSource.BLUEPRINT, strategy=Strategy.AUTO)

    assert with_strategy(contract, ALL).strategy is Strategy.SYSTEM_PROMPT


@pytest.mark.parametrize(
    ("wanted", "offered", "schema"),
    [
        pytest.param(Strategy.NATIVE, WORDS_ONLY, SCHEMA, id="not there"),
        pytest.param(Strategy.PROMPT, WORDS_ONLY, SCHEMA, id="another that is not there"),
        pytest.param(Strategy.NATIVE, ALL, LARGE, id="too long"),
    ],
)
def test_a_strategy_that_cannot_be_had_is_an_error_that_names_those_that_can(
    wanted: Strategy, offered: list[str], schema: dict[str, Any]
) -> None:
    with pytest.raises(StrategyNotOffered, match=f"'{wanted}' is not available .*; use system_prompt or"):
        chosen(wanted, offered, schema)


def test_an_objects_schema_is_handed_over_as_it_is_without_its_dialect() -> None:
    native = native_schema({"$schema": "http://json-schema.org/draft-07/schema#", "$id": "urn:x", **SCHEMA})

    assert (native.document, native.is_wrapped) == (SCHEMA, False)


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "array", "items": {"type": "integer"}}, id="array"),
        pytest.param({}, id="anything"),
        pytest.param({"type": ["object", "null"]}, id="object or null"),
        pytest.param({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, id="choice at the root"),
        pytest.param({"$ref": "#/definitions/a", "definitions": {"a": {"type": "object"}}}, id="reference at the root"),
    ],
)
def test_any_other_schema_is_wrapped_into_an_object(schema: dict[str, Any]) -> None:
    native = native_schema(schema)

    assert native.is_wrapped
    assert native.document["type"] == "object"
    assert native.unwrap({"value": [1]}) == [1]
    assert native.unwrap([1]) == [1]


def test_references_lead_to_the_same_place_in_the_wrapped_schema() -> None:
    tree = {
        "$id": "https://example.org/tree",
        "type": "array",
        "items": {"$ref": "#/definitions/node"},
        "definitions": {
            "node": {"type": "object", "properties": {"below": {"$ref": "https://example.org/tree"}, "n~": {}}},
            "leaf": {"$ref": "#/definitions/node/properties/n~0"},
        },
    }
    document = native_schema(tree).document

    assert document["properties"]["value"]["items"] == {"$ref": "#/properties/value/definitions/node"}
    assert is_valid({"value": [{"below": [{}]}]}, document)
    assert not is_valid({"value": [{"below": [1]}]}, document)
    assert "$id" not in json.dumps(document)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["value", "n", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(value=json_values, schema=st.sampled_from([{}, {"type": "array"}, {"type": ["string", "object"]}, SCHEMA]))
def test_a_value_fits_the_wrapped_schema_exactly_when_it_fits_the_schema(value: Any, schema: dict[str, Any]) -> None:
    native = native_schema(schema)
    wrapped = {"value": value} if native.is_wrapped else value

    assert is_valid(wrapped, native.document) == is_valid(value, schema)
    assert not native.is_wrapped or native.unwrap(wrapped) == value
