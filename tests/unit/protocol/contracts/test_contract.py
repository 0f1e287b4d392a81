"""Which contract a run has, with which options, and by which strategy its model is asked.

The vectors `contract-*` say for each source what holds; here is what they leave open.
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.contracts import is_valid
from ao_protocol.contracts.checks import InvalidSchema
from ao_protocol.contracts.contract import (
    MAX_NATIVE_BYTES,
    AgentResponseFormat,
    ContractOverridden,
    Demand,
    InvalidOptions,
    JsonFormat,
    OutputContract,
    OutputOptions,
    SchemaSource,
    Strategy,
    StrategyNotOffered,
    ValidationMode,
    default_options,
    demand_in,
    native_schema,
    options_from,
    options_to_send,
    resolve_contract,
    with_strategy,
)
from ao_protocol.documents import invocation_from_document

DESIGNERS: Mapping[str, Any] = {"const": True}
INLINE: Mapping[str, Any] = {"type": "array"}
NAMED: Mapping[str, Any] = {"type": "string"}
DEFAULT: Mapping[str, Any] = {"type": "number"}
BROKEN: Mapping[str, Any] = {"type": "strin"}
RESPONSE = AgentResponseFormat("xml")


def authoritative(demanded: JsonFormat | AgentResponseFormat) -> OutputContract:
    return OutputContract(demanded, SchemaSource.BLUEPRINT, max_retries=1)


def callers(schema: Mapping[str, Any], source: SchemaSource, **options: Any) -> OutputContract:
    return OutputContract(JsonFormat(schema), source, **{"max_retries": 2, **options})


@pytest.mark.requirement("AOX-160")
@pytest.mark.parametrize(
    ("demands", "contract"),
    [
        pytest.param(
            Demand(schema=INLINE, default=DEFAULT),
            callers(INLINE, SchemaSource.INLINE),
            id="inline before named and default",
        ),
        pytest.param(
            Demand(schema=NAMED, source=SchemaSource.NAMED, default=DEFAULT),
            callers(NAMED, SchemaSource.NAMED),
            id="named before default",
        ),
        pytest.param(
            Demand(schema=INLINE, default=DEFAULT, default_options={"max_retries": 4}),
            callers(INLINE, SchemaSource.INLINE),
            id="options for the default are for the default only",
        ),
        pytest.param(Demand(schema={}), callers({}, SchemaSource.INLINE), id="an empty schema is a contract"),
        pytest.param(
            Demand(
                schema=INLINE,
                options={"max_retries": 0, "extract_json": False, "validation_mode": "lenient", "strategy": "prompt"},
            ),
            callers(
                INLINE,
                SchemaSource.INLINE,
                max_retries=0,
                extract_json=False,
                validation_mode=ValidationMode.LENIENT,
                strategy=Strategy.PROMPT,
            ),
            id="every option of the caller",
        ),
        pytest.param(
            Demand(schema=INLINE, options={"strategy": "extract", "max_retries": 1}),
            callers(INLINE, SchemaSource.INLINE, max_retries=1, strategy=Strategy.EXTRACT),
            id="extraction asks again if it is told to",
        ),
        pytest.param(
            Demand(schema=INLINE, options={"max_retries": None}),
            callers(INLINE, SchemaSource.INLINE),
            id="null is not given",
        ),
    ],
)
def test_the_first_demand_holds(demands: Demand, contract: OutputContract | None) -> None:
    assert resolve_contract(demands) == contract


@pytest.mark.requirement("AOX-161")
@pytest.mark.parametrize(
    ("demands", "what"),
    [
        pytest.param({"schema": INLINE}, "the run's output_schema cannot replace", id="inline"),
        pytest.param({"schema": {}}, "the run's output_schema cannot replace", id="an empty one loosens"),
        pytest.param(
            {"schema": NAMED, "source": SchemaSource.NAMED}, "the schema that the run names cannot replace", id="named"
        ),
        pytest.param({"schema": {"const": 1}}, "the run's output_schema cannot replace", id="true is not 1"),
        pytest.param({"schema": BROKEN}, "the run's output_schema cannot replace", id="not even a broken one"),
        pytest.param(
            {"options": {"max_retries": 9, "strategy": "prompt"}},
            r"the run's output_schema_options \(max_retries\) cannot replace",
            id="options",
        ),
    ],
)
@pytest.mark.parametrize("demanded", [JsonFormat(DESIGNERS), RESPONSE], ids=["schema", "format"])
def test_nobody_overrides_the_designer(
    demanded: JsonFormat | AgentResponseFormat, demands: dict[str, Any], what: str
) -> None:
    with pytest.raises(ContractOverridden, match=f"{what} the agent's output_.*, which is authoritative; leave it out"):
        resolve_contract(Demand(authoritative=demanded, **demands))


def test_a_response_is_asked_for_in_words_only() -> None:
    with pytest.raises(InvalidOptions, match='"auto", "prompt", "system_prompt", found "native"'):
        resolve_contract(Demand(authoritative=RESPONSE, options={"strategy": "native"}))


def test_the_schema_that_holds_is_vetted_and_one_that_does_not_is_left_alone() -> None:
    assert resolve_contract(Demand(schema=INLINE, default=BROKEN)) is not None
    for demands in (Demand(schema=BROKEN), Demand(default=BROKEN)):
        with pytest.raises(InvalidSchema):
            resolve_contract(demands)


def test_defaults_hold_for_callers_and_never_for_the_designer() -> None:
    environ = {"SCHEMA_ENFORCEMENT_MAX_RETRIES": "7", "SCHEMA_ENFORCEMENT_EXTRACT_JSON": "false"}

    assert resolve_contract(Demand(schema=INLINE), environ) == callers(
        INLINE, SchemaSource.INLINE, max_retries=7, extract_json=False
    )
    assert resolve_contract(Demand(authoritative=RESPONSE), environ) == authoritative(RESPONSE)


def test_an_unknown_option_for_the_default_is_told_with_its_place() -> None:
    with pytest.raises(InvalidOptions) as caught:
        resolve_contract(Demand(default=DEFAULT, default_options={"retries": 1}))

    assert [problem.path for problem in caught.value.problems] == [
        "$.agent_blueprint.default_output_schema_options.retries"
    ]


@pytest.mark.parametrize(
    ("blueprint", "fields", "expected"),
    [
        pytest.param(None, {}, Demand(), id="nothing"),
        pytest.param(
            {"output_format": {"type": "agent_response"}}, {}, Demand(AgentResponseFormat("xml")), id="usual form"
        ),
        pytest.param(None, {"output_schema": INLINE}, Demand(schema=INLINE), id="without a source"),
        pytest.param(
            None,
            {"output_schema": NAMED, "output_schema_source": "named"},
            Demand(schema=NAMED, source=SchemaSource.NAMED),
            id="named",
        ),
        pytest.param(
            {"default_output_schema": INLINE, "default_output_schema_options": {"max_retries": 1}},
            {"output_schema": DEFAULT, "output_schema_source": "default"},
            Demand(default=DEFAULT, default_options={"max_retries": 1}),
            id="default by the runner",
        ),
        pytest.param(
            None,
            {"output_schema": DESIGNERS, "output_schema_source": "blueprint"},
            Demand(JsonFormat(DESIGNERS)),
            id="the designer's, sent apart from the blueprint",
        ),
        *(
            pytest.param(
                {"output_schema": DESIGNERS},
                {"output_schema": INLINE, "output_schema_source": source},
                Demand(JsonFormat(DESIGNERS), schema=INLINE),
                id=f"a {source} beside the designer's is another demand",
            )
            for source in ("default", "blueprint")
        ),
    ],
)
def test_an_invocation_says_what_is_demanded(
    blueprint: dict[str, Any] | None, fields: dict[str, Any], expected: Demand
) -> None:
    document: dict[str, Any] = {"schema_version": "3.0", "mode": "start", "parameters": {}, **fields}
    if blueprint is not None:
        document["agent_blueprint"] = {"name": "a", **blueprint}

    assert demand_in(invocation_from_document(document)) == expected


def test_an_unknown_source_is_an_error_even_without_a_schema() -> None:
    document: dict[str, Any] = {"schema_version": "3.0", "mode": "start", "parameters": {}}

    with pytest.raises(InvalidOptions, match=r'^\$\.output_schema_source: expected one of "blueprint", .* "hearsay"$'):
        demand_in(invocation_from_document(document | {"output_schema_source": "hearsay"}))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Demand(), False),
        (Demand(authoritative=JsonFormat(DESIGNERS), schema=dict(DESIGNERS)), False),
        (Demand(schema=INLINE), True),
        (Demand(schema=NAMED, source=SchemaSource.NAMED), True),
        (Demand(default=DEFAULT), True),
    ],
)
def test_defaults_concern_those_contracts_only_that_take_options(wanted: Demand, expected: bool) -> None:
    assert wanted.has_schema is expected


def test_the_strategy_extract_extracts_whatever_the_defaults_say() -> None:
    defaults = OutputOptions(max_retries=5, extract_json=False)

    assert options_from({"extract_json": True}, defaults) == OutputOptions(max_retries=5, extract_json=True)
    assert options_from({"strategy": "extract"}, defaults) == OutputOptions(0, True, strategy=Strategy.EXTRACT)


KNOWN = (
    'is not known; known are "ambiguous", "extract_json", "max_retries", "strategy", "strict_json_only", '
    '"validation_mode"'
)
RETRIES = "expected an integer from 0 to 10, found"
STRATEGIES = "expected a text that is not empty, found"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({"max_retry": 1}, [f"max_retry: {KNOWN}"], id="unknown"),
        pytest.param({"max_retries": 11}, [f"max_retries: {RETRIES} 11"], id="too many retries"),
        pytest.param({"max_retries": -1}, [f"max_retries: {RETRIES} -1"], id="fewer than none"),
        pytest.param({"max_retries": True}, [f"max_retries: {RETRIES} true"], id="a boolean is no number of retries"),
        pytest.param({"extract_json": "yes"}, ['extract_json: expected true or false, found "yes"'], id="no boolean"),
        pytest.param(
            {"validation_mode": "loose"},
            ['validation_mode: expected "strict" or "lenient", found "loose"'],
            id="unknown mode",
        ),
        pytest.param(
            {"ambiguous": "first"}, ['ambiguous: expected "report" or "refuse", found "first"'], id="unknown ambiguity"
        ),
        pytest.param({"strategy": ""}, [f'strategy: {STRATEGIES} ""'], id="a strategy without a name"),
        pytest.param({"strategy": ["native"]}, [f'strategy: {STRATEGIES} ["native"]'], id="a list of strategies"),
        pytest.param(
            {"max_retries": 99, "extract": True},
            [f"max_retries: {RETRIES} 99", f"extract: {KNOWN}"],
            id="everything that is wrong at once",
        ),
    ],
)
def test_an_option_that_means_nothing_is_an_error(options: dict[str, Any], expected: list[str]) -> None:
    with pytest.raises(InvalidOptions) as caught:
        options_from(options)

    assert str(caught.value) == "; ".join(f"$.output_schema_options.{problem}" for problem in expected)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"strict_json_only": True, "extract_json": True}, "extract_json"),
        ({"strict_json_only": True, "validation_mode": "lenient"}, "validation_mode"),
        ({"strategy": "extract", "strict_json_only": True}, "strict_json_only"),
        ({"strategy": "extract", "extract_json": False}, "extract_json"),
    ],
)
def test_options_that_contradict_each_other_are_an_error_that_says_which(options: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidOptions, match="contradicts") as caught:
        options_from(options)

    assert [problem.path for problem in caught.value.problems] == [f"$.output_schema_options.{name}"]


@pytest.mark.parametrize(
    "options",
    [
        {"strict_json_only": True, "extract_json": False},
        {"strict_json_only": True, "extract_json": None},
        {"extract_json": False, "validation_mode": "lenient"},
        {"strategy": "extract", "extract_json": True, "validation_mode": "lenient", "max_retries": 3},
        {"strategy": "native", "strict_json_only": True},
        {"max_retries": 3.0},
    ],
)
def test_options_that_only_look_contradictory_are_taken(options: dict[str, Any]) -> None:
    options_from(options)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, OutputOptions(2, True)),
        ({"SCHEMA_ENFORCEMENT_MAX_RETRIES": "0"}, OutputOptions(0, True)),
        ({"SCHEMA_ENFORCEMENT_MAX_RETRIES": " 10 "}, OutputOptions(10, True)),
        ({"SCHEMA_ENFORCEMENT_MAX_RETRIES": ""}, OutputOptions(2, True)),
        ({"SCHEMA_ENFORCEMENT_EXTRACT_JSON": "False"}, OutputOptions(2, False)),
        ({"SCHEMA_ENFORCEMENT_EXTRACT_JSON": "1"}, OutputOptions(2, True)),
    ],
)
def test_the_environment_sets_the_defaults(environ: dict[str, str], expected: OutputOptions) -> None:
    assert default_options(environ) == expected


@pytest.mark.parametrize(
    ("name", "found"),
    [
        *(("SCHEMA_ENFORCEMENT_MAX_RETRIES", found) for found in ("11", "-1", "two", "²", "9" * 10_000)),
        ("SCHEMA_ENFORCEMENT_EXTRACT_JSON", "maybe"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_an_error_that_names_it(name: str, found: str) -> None:
    with pytest.raises(InvalidOptions, match=f"^{name}: expected") as caught:
        default_options({name: found})

    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("given", "defaults", "sent"),
    [
        pytest.param({"max_retries": 2, "strategy": None}, OutputOptions(), {"max_retries": 2}, id="what was given"),
        pytest.param(
            {"strategy": "native"},
            OutputOptions(5, False),
            {"strategy": "native", "max_retries": 5, "extract_json": False},
            id="defaults of another place",
        ),
        pytest.param({"max_retries": 1}, OutputOptions(5), {"max_retries": 1}, id="given before defaults"),
        pytest.param(
            {"strategy": "extract"}, OutputOptions(5, False), {"strategy": "extract"}, id="extraction has its own"
        ),
        pytest.param(
            {"strict_json_only": True}, OutputOptions(), {"strict_json_only": True}, id="nothing that contradicts"
        ),
    ],
)
def test_what_is_sent_means_there_what_it_means_here(
    given: dict[str, Any] | None, defaults: OutputOptions, sent: dict[str, Any]
) -> None:
    assert options_to_send(given, defaults) == sent
    assert options_from(sent) == options_from(given, defaults)


OBJECT = {"type": "object", "required": ["n"]}
LARGE = {"type": "object", "description": "x" * MAX_NATIVE_BYTES}
ALL = ["system_prompt", "prompt", "extract", "native"]
WORDS_ONLY = ["system_prompt", "extract"]


def asked(wanted: Strategy | None, offered: list[str], schema: dict[str, Any] = OBJECT, **options: Any) -> str | None:
    contract = OutputContract(JsonFormat(schema), SchemaSource.INLINE, strategy=wanted)
    return with_strategy(contract, offered, **options).strategy


@pytest.mark.parametrize(
    ("wanted", "offered", "at_the_start", "in_a_resume"),
    [
        (None, ALL, "system_prompt", "prompt"),
        (None, WORDS_ONLY, "system_prompt", "system_prompt"),
        (None, ["extract"], "extract", "extract"),
        (Strategy.PROMPT, ALL, "prompt", "prompt"),
        (Strategy.SYSTEM_PROMPT, ALL, "system_prompt", "prompt"),
        (Strategy.EXTRACT, ALL, "extract", "extract"),
        (Strategy.NATIVE, ALL, "native", "native"),
        (Strategy.AUTO, ALL, "native", "native"),
        (Strategy.AUTO, WORDS_ONLY, "system_prompt", "system_prompt"),
        (Strategy.AUTO, ["prompt"], "prompt", "prompt"),
        (Strategy.AUTO, ["system_prompt", "tool"], "tool", "tool"),
    ],
)
def test_the_strategy_is_one_that_the_executor_has(
    wanted: Strategy | None, offered: list[str], at_the_start: str, in_a_resume: str
) -> None:
    assert (asked(wanted, offered), asked(wanted, offered, is_resume=True)) == (at_the_start, in_a_resume)


def test_auto_says_in_words_what_no_provider_takes() -> None:
    contract = OutputContract(AgentResponseFormat("json"), SchemaSource.BLUEPRINT, strategy=Strategy.AUTO)

    assert asked(Strategy.AUTO, ALL, LARGE) is Strategy.SYSTEM_PROMPT
    assert with_strategy(contract, [*ALL, "tool"]).strategy is Strategy.SYSTEM_PROMPT


@pytest.mark.parametrize(
    ("wanted", "offered", "schema"),
    [
        pytest.param(Strategy.NATIVE, WORDS_ONLY, OBJECT, id="not there"),
        pytest.param(Strategy.PROMPT, WORDS_ONLY, OBJECT, id="another that is not there"),
        pytest.param(Strategy.NATIVE, ALL, LARGE, id="too long"),
    ],
)
def test_a_strategy_that_cannot_be_had_is_an_error_that_names_those_that_can(
    wanted: Strategy, offered: list[str], schema: dict[str, Any]
) -> None:
    with pytest.raises(StrategyNotOffered, match=f'"{wanted}" is not available .*; use system_prompt or'):
        asked(wanted, offered, schema)


def test_an_objects_schema_is_handed_over_as_it_is_without_its_dialect() -> None:
    native = native_schema({"$schema": "http://json-schema.org/draft-07/schema#", "$id": "urn:x", **OBJECT})

    assert (native.document, native.is_wrapped) == (OBJECT, False)


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

    assert (native.is_wrapped, native.document["type"]) == (True, "object")
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


@given(value=json_values, schema=st.sampled_from([{}, {"type": "array"}, {"type": ["string", "object"]}, OBJECT]))
def test_a_value_fits_the_wrapped_schema_exactly_when_it_fits_the_schema(value: Any, schema: dict[str, Any]) -> None:
    native = native_schema(schema)
    wrapped = {"value": value} if native.is_wrapped else value

    assert is_valid(wrapped, native.document) == is_valid(value, schema)
    assert not native.is_wrapped or native.unwrap(wrapped) == value
