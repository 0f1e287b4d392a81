"""The options of a caller's contract."""

from typing import Any

import pytest

from ao_protocol.contracts.contract import (
    InvalidOptions,
    OptionDefaults,
    OutputOptions,
    Strategy,
    ValidationMode,
    defaults_from,
    options_from,
    options_to_send,
)


def test_without_options_the_defaults_hold() -> None:
    assert options_from(None) == OutputOptions(
        max_retries=2,
        extract_json=True,
        strict_json_only=False,
        validation_mode=ValidationMode.STRICT,
        strategy=None,
    )


def test_what_is_given_wins_over_the_defaults() -> None:
    defaults = OptionDefaults(max_retries=5, extract_json=False)

    assert options_from({"extract_json": True}, defaults) == OutputOptions(max_retries=5, extract_json=True)


def test_the_strategy_extract_extracts_whatever_the_defaults_say() -> None:
    defaults = OptionDefaults(max_retries=5, extract_json=False)

    assert options_from({"strategy": "extract"}, defaults) == OutputOptions(
        max_retries=0, extract_json=True, strategy=Strategy.EXTRACT
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(
            {"max_retry": 1},
            "$.output_schema_options.max_retry: is not known; known are "
            "'extract_json', 'max_retries', 'strategy', 'strict_json_only', 'validation_mode'",
            id="unknown",
        ),
        pytest.param(
            {"max_retries": 11},
            "$.output_schema_options.max_retries: expected an integer from 0 to 10, found 11",
            id="too many retries",
        ),
        pytest.param(
            {"max_retries": -1},
            "$.output_schema_options.max_retries: expected an integer from 0 to 10, found -1",
            id="fewer than none",
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
        pytest.param(
            {"strategy": "magic"},
            "$.output_schema_options.strategy: expected 'prompt', 'system_prompt', 'extract', 'native' or 'auto', "
            "found 'magic'",
            id="unknown strategy",
        ),
        pytest.param(
            {"strategy": ["native"]},
            "$.output_schema_options.strategy: expected 'prompt', 'system_prompt', 'extract', 'native' or 'auto', "
            "found ['native']",
            id="a list of strategies",
        ),
        pytest.param(
            {"max_retries": 99, "extract": True},
            "$.output_schema_options.max_retries: expected an integer from 0 to 10, found 99; "
            "$.output_schema_options.extract: is not known; known are "
            "'extract_json', 'max_retries', 'strategy', 'strict_json_only', 'validation_mode'",
            id="everything that is wrong at once",
        ),
    ],
)
def test_an_option_that_means_nothing_is_an_error(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidOptions) as caught:
        options_from(options)

    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("options", "names"),
    [
        pytest.param({"strict_json_only": True, "extract_json": True}, "extract_json", id="only JSON, and extracted"),
        pytest.param(
            {"strict_json_only": True, "validation_mode": "lenient"}, "validation_mode", id="only JSON, and repaired"
        ),
        pytest.param(
            {"strategy": "extract", "strict_json_only": True}, "strict_json_only", id="extracting without prose"
        ),
        pytest.param(
            {"strategy": "extract", "extract_json": False}, "extract_json", id="extracting without extraction"
        ),
    ],
)
def test_options_that_contradict_each_other_are_an_error_that_says_which(options: dict[str, Any], names: str) -> None:
    with pytest.raises(InvalidOptions, match="contradicts") as caught:
        options_from(options)

    assert [problem.path for problem in caught.value.problems] == [f"$.output_schema_options.{names}"]


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
        ({}, OptionDefaults(2, True)),
        ({"SCHEMA_ENFORCEMENT_MAX_RETRIES": "0"}, OptionDefaults(0, True)),
        ({"SCHEMA_ENFORCEMENT_MAX_RETRIES": " 10 "}, OptionDefaults(10, True)),
        ({"SCHEMA_ENFORCEMENT_MAX_RETRIES": ""}, OptionDefaults(2, True)),
        ({"SCHEMA_ENFORCEMENT_EXTRACT_JSON": "False"}, OptionDefaults(2, False)),
        ({"SCHEMA_ENFORCEMENT_EXTRACT_JSON": "1"}, OptionDefaults(2, True)),
    ],
)
def test_the_environment_sets_the_defaults(environ: dict[str, str], expected: OptionDefaults) -> None:
    assert defaults_from(environ) == expected


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("SCHEMA_ENFORCEMENT_MAX_RETRIES", "11"),
        ("SCHEMA_ENFORCEMENT_MAX_RETRIES", "-1"),
        ("SCHEMA_ENFORCEMENT_MAX_RETRIES", "two"),
        ("SCHEMA_ENFORCEMENT_MAX_RETRIES", "²"),
        ("SCHEMA_ENFORCEMENT_MAX_RETRIES", "9" * 10_000),
        ("SCHEMA_ENFORCEMENT_EXTRACT_JSON", "maybe"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_an_error_that_names_it(name: str, found: str) -> None:
    with pytest.raises(InvalidOptions, match=f"^{name}: expected") as caught:
        defaults_from({name: found})

    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("given", "defaults", "sent"),
    [
        pytest.param(None, OptionDefaults(), {}, id="nothing to say"),
        pytest.param({"max_retries": 2, "strategy": None}, OptionDefaults(), {"max_retries": 2}, id="what was given"),
        pytest.param(
            {"strategy": "native"},
            OptionDefaults(5, False),
            {"strategy": "native", "max_retries": 5, "extract_json": False},
            id="defaults of another place",
        ),
        pytest.param({"max_retries": 1}, OptionDefaults(5), {"max_retries": 1}, id="given before defaults"),
        pytest.param(
            {"strategy": "extract"}, OptionDefaults(5, False), {"strategy": "extract"}, id="extraction has its own"
        ),
        pytest.param(
            {"strict_json_only": True}, OptionDefaults(), {"strict_json_only": True}, id="nothing that contradicts"
        ),
    ],
)
def test_what_is_sent_means_there_what_it_means_here(
    given: dict[str, Any] | None, defaults: OptionDefaults, sent: dict[str, Any]
) -> None:
    assert options_to_send(given, defaults) == sent
    assert options_from(sent) == options_from(given, defaults)
