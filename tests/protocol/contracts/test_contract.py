"""Which contract a run has: the whole table of who may demand what."""

from collections.abc import Mapping
from typing import Any

import pytest

from ao_protocol.contracts.contract import (
    AgentResponseFormat,
    ContractOverridden,
    Demands,
    InvalidOptions,
    JsonFormat,
    OptionDefaults,
    OutputContract,
    SchemaSource,
    Strategy,
    ValidationMode,
    demands_of,
    resolve_contract,
    takes_defaults,
)
from ao_protocol.contracts.validation import InvalidSchema
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
        pytest.param(Demands(), None, id="nobody demands anything"),
        pytest.param(Demands(options={"max_retries": 5}), None, id="options alone demand nothing"),
        pytest.param(
            Demands(authoritative=JsonFormat(DESIGNERS)),
            authoritative(JsonFormat(DESIGNERS)),
            id="the designer's schema",
        ),
        pytest.param(Demands(authoritative=RESPONSE), authoritative(RESPONSE), id="the designer's format"),
        pytest.param(
            Demands(authoritative=JsonFormat(DESIGNERS), default=DEFAULT),
            authoritative(JsonFormat(DESIGNERS)),
            id="the designer's schema before the default",
        ),
        pytest.param(
            Demands(authoritative=JsonFormat(DESIGNERS), inline=dict(DESIGNERS)),
            authoritative(JsonFormat(DESIGNERS)),
            id="the very same schema overrides nothing",
        ),
        pytest.param(Demands(inline=INLINE), callers(INLINE, SchemaSource.INLINE), id="inline"),
        pytest.param(
            Demands(inline=INLINE, named=NAMED, default=DEFAULT),
            callers(INLINE, SchemaSource.INLINE),
            id="inline before named and default",
        ),
        pytest.param(
            Demands(named=NAMED, default=DEFAULT), callers(NAMED, SchemaSource.NAMED), id="named before default"
        ),
        pytest.param(Demands(default=DEFAULT), callers(DEFAULT, SchemaSource.DEFAULT), id="default"),
        pytest.param(
            Demands(
                default=DEFAULT, default_options={"max_retries": 4, "extract_json": False}, options={"max_retries": 3}
            ),
            callers(DEFAULT, SchemaSource.DEFAULT, max_retries=3, extract_json=False),
            id="the run's options before the designer's for the default",
        ),
        pytest.param(
            Demands(inline=INLINE, default=DEFAULT, default_options={"max_retries": 4}),
            callers(INLINE, SchemaSource.INLINE),
            id="options for the default are for the default only",
        ),
        pytest.param(Demands(inline={}), callers({}, SchemaSource.INLINE), id="an empty schema is a contract"),
        pytest.param(
            Demands(
                inline=INLINE,
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
            id="the caller's options",
        ),
        pytest.param(
            Demands(inline=INLINE, options={"strategy": "extract"}),
            callers(INLINE, SchemaSource.INLINE, max_retries=0, strategy=Strategy.EXTRACT),
            id="extraction alone asks nobody again",
        ),
        pytest.param(
            Demands(inline=INLINE, options={"strategy": "extract", "max_retries": 1}),
            callers(INLINE, SchemaSource.INLINE, max_retries=1, strategy=Strategy.EXTRACT),
            id="unless it is told to",
        ),
        pytest.param(
            Demands(authoritative=JsonFormat(DESIGNERS), options={"strategy": "native"}),
            OutputContract(JsonFormat(DESIGNERS), SchemaSource.BLUEPRINT, max_retries=1, strategy=Strategy.NATIVE),
            id="a caller may choose how the designer's contract is asked for",
        ),
        pytest.param(
            Demands(inline=INLINE, options={"max_retries": None}),
            callers(INLINE, SchemaSource.INLINE),
            id="null is not given",
        ),
    ],
)
def test_the_first_demand_holds(demands: Demands, contract: OutputContract | None) -> None:
    assert resolve_contract(demands) == contract


@pytest.mark.requirement("AOX-161")
@pytest.mark.parametrize(
    ("demands", "what"),
    [
        pytest.param({"inline": INLINE}, "the run's output_schema cannot replace", id="inline"),
        pytest.param({"inline": {}}, "the run's output_schema cannot replace", id="an empty one loosens"),
        pytest.param({"named": NAMED}, "the schema that the run names cannot replace", id="named"),
        pytest.param({"inline": {"const": 1}}, "the run's output_schema cannot replace", id="true is not 1"),
        pytest.param({"inline": BROKEN}, "the run's output_schema cannot replace", id="not even a broken one"),
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
        resolve_contract(Demands(authoritative=demanded, **demands))


def test_a_response_is_asked_for_in_words_only() -> None:
    with pytest.raises(InvalidOptions, match="'auto', 'prompt', 'system_prompt', found 'native'"):
        resolve_contract(Demands(authoritative=RESPONSE, options={"strategy": "native"}))


def test_the_schema_that_holds_is_vetted_and_one_that_does_not_is_left_alone() -> None:
    assert resolve_contract(Demands(inline=INLINE, default=BROKEN)) is not None
    with pytest.raises(InvalidSchema):
        resolve_contract(Demands(inline=BROKEN))
    with pytest.raises(InvalidSchema):
        resolve_contract(Demands(default=BROKEN))


def test_defaults_hold_for_callers_and_never_for_the_designer() -> None:
    defaults = OptionDefaults(max_retries=7, extract_json=False)

    assert resolve_contract(Demands(inline=INLINE), defaults) == callers(
        INLINE, SchemaSource.INLINE, max_retries=7, extract_json=False
    )
    assert resolve_contract(Demands(authoritative=JsonFormat(DESIGNERS)), defaults) == authoritative(
        JsonFormat(DESIGNERS)
    )


@pytest.mark.parametrize(
    ("wanted", "place"),
    [
        (Demands(default=DEFAULT, options={"retries": 1}), "$.output_schema_options.retries"),
        (
            Demands(default=DEFAULT, default_options={"retries": 1}),
            "$.agent_blueprint.default_output_schema_options.retries",
        ),
    ],
    ids=["the run's", "the designer's"],
)
def test_an_unknown_option_is_told_with_its_place(wanted: Demands, place: str) -> None:
    with pytest.raises(InvalidOptions) as caught:
        resolve_contract(wanted)

    assert [problem.path for problem in caught.value.problems] == [place]


def demands(blueprint: dict[str, Any] | None, **fields: object) -> Demands:
    document: dict[str, Any] = {"schema_version": "3.0", "mode": "start", "parameters": {}, **fields}
    if blueprint is not None:
        document["agent_blueprint"] = {"name": "a", **blueprint}
    return demands_of(invocation_from_document(document))


@pytest.mark.parametrize(
    ("blueprint", "fields", "expected"),
    [
        pytest.param(None, {}, Demands(), id="nothing"),
        pytest.param({"output_schema": DESIGNERS}, {}, Demands(JsonFormat(DESIGNERS)), id="blueprint"),
        pytest.param(
            {"output_format": {"type": "agent_response"}}, {}, Demands(AgentResponseFormat("xml")), id="usual form"
        ),
        pytest.param(None, {"output_schema": INLINE}, Demands(inline=INLINE), id="without a source"),
        pytest.param(None, {"output_schema": NAMED, "output_schema_source": "named"}, Demands(named=NAMED), id="named"),
        pytest.param(
            {"default_output_schema": INLINE, "default_output_schema_options": {"max_retries": 1}},
            {"output_schema": DEFAULT, "output_schema_source": "default"},
            Demands(default=DEFAULT, default_options={"max_retries": 1}),
            id="default by the runner",
        ),
        pytest.param(
            None,
            {"output_schema": DESIGNERS, "output_schema_source": "blueprint"},
            Demands(JsonFormat(DESIGNERS)),
            id="the designer's, sent apart from the blueprint",
        ),
        pytest.param(
            {"output_schema": DESIGNERS},
            {"output_schema": INLINE, "output_schema_source": "default"},
            Demands(JsonFormat(DESIGNERS), inline=INLINE),
            id="a default beside the designer's is another demand",
        ),
        pytest.param(
            {"output_schema": DESIGNERS},
            {"output_schema": INLINE, "output_schema_source": "blueprint"},
            Demands(JsonFormat(DESIGNERS), inline=INLINE),
            id="a caller who poses as the designer",
        ),
    ],
)
def test_an_invocation_says_what_is_demanded(
    blueprint: dict[str, Any] | None, fields: dict[str, Any], expected: Demands
) -> None:
    assert demands(blueprint, **fields) == expected


@pytest.mark.parametrize("schema", [INLINE, None], ids=["with a schema", "without one"])
def test_an_unknown_source_is_an_error(schema: Mapping[str, Any] | None) -> None:
    with pytest.raises(InvalidOptions) as caught:
        demands(None, output_schema=schema, output_schema_source="hearsay")

    assert str(caught.value) == (
        "$.output_schema_source: expected one of 'blueprint', 'inline', 'named', 'default', found 'hearsay'"
    )


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Demands(), False),
        (Demands(authoritative=JsonFormat(DESIGNERS), inline=dict(DESIGNERS)), False),
        (Demands(inline=INLINE), True),
        (Demands(named=NAMED), True),
        (Demands(default=DEFAULT), True),
    ],
)
def test_defaults_concern_those_contracts_only_that_take_options(wanted: Demands, expected: bool) -> None:
    assert takes_defaults(wanted) is expected
