"""What a person may demand of an answer, and what they are told of how it was kept."""

import json
from datetime import datetime
from typing import Any

import pytest
from pydantic import BaseModel

from tests.process.runner.cli.calling import Ao, Called, miniature

SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


@pytest.fixture
def agent(ao: Ao) -> Ao:
    ao.write("schema.json", json.dumps(SCHEMA))
    ao.write("helper.json", json.dumps({"name": "helper"}))
    ao.write("strict.json", json.dumps({"name": "strict", "output_schema": SCHEMA}))
    ao.write("usual.json", json.dumps({"name": "usual", "default_output_schema": SCHEMA}))
    return ao


def play(ao: Ao, *arguments: str, answers: list[str], blueprint: str = "helper.json", **variables: str) -> Called:
    """Run with a scripted executor that gives these answers."""
    script = {"script": {"answers": [{"text": text} for text in answers]}}
    config = str(ao.write("config.json", json.dumps(script)))
    return ao("run", blueprint, "-p", "x", "--executor", "scripted", "--config", config, *arguments, **variables)


def result(ao: Ao) -> Any:
    return ao("result", "last", "--json").document


def test_a_schema_from_a_file_is_kept_and_told(agent: Ao) -> None:
    called = play(agent, "--output-schema", "schema.json", answers=["none", '{"n": 1}'])

    assert (called.exit_code, called.document) == (0, {"n": 1})
    assert "attempt 1 of 3: the answer does not fit the schema; asking again" in called.stderr
    assert "2 attempts" in called.stderr
    told = result(agent)
    assert told["validated_output"] == told["result_data"] == {"n": 1}
    assert told["schema_validation"] == {"valid": True, "schema_name": None, "retry_count": 1}


def test_a_schema_by_name_is_kept_as_it_was_when_the_run_began(agent: Ao) -> None:
    assert agent("schema", "add", "count", "schema.json").exit_code == 0
    called = play(agent, "--output-schema-name", "count", answers=['{"n": "x"}'] * 3)

    assert called.exit_code == 1
    told = result(agent)
    assert told["error"]["type"] == "schema_validation_failed"
    assert told["validated_output"] is None
    assert told["schema_validation"] == {"valid": False, "schema_name": "count", "retry_count": 2}
    assert agent("schema", "delete", "count").exit_code == 2


def test_a_run_without_a_contract_tells_of_none(agent: Ao) -> None:
    assert play(agent, answers=["hello"]).exit_code == 0
    assert {"validated_output", "schema_validation"}.isdisjoint(result(agent))


def test_the_designers_default_holds_and_options_apply_to_it(agent: Ao) -> None:
    called = play(agent, "--output-option", "max_retries=0", answers=["no"], blueprint="usual.json")

    assert called.exit_code == 1
    assert "attempt 1 of 1" in called.stderr


def test_options_are_json_or_text(agent: Ao) -> None:
    options = [f"--output-option={pair}" for pair in ("extract_json=false", "strategy=prompt", "max_retries=0")]
    called = play(agent, "--output-schema", "schema.json", *options, answers=['I say {"n": 1}'])

    assert called.exit_code == 1
    assert "The answer holds other text than JSON, and only JSON is wanted" in called.stderr


def test_the_environment_sets_the_defaults_of_a_run(agent: Ao) -> None:
    called = play(agent, "--output-schema", "schema.json", answers=["no"] * 5, SCHEMA_ENFORCEMENT_MAX_RETRIES="4")

    assert called.exit_code == 1
    assert "attempt 5 of 5" in called.stderr


def test_what_was_read_leniently_is_told(agent: Ao) -> None:
    called = play(
        agent, "--output-schema", "schema.json", "--output-option", "validation_mode=lenient", answers=['{"n": 1,}']
    )

    assert called.exit_code == 0
    assert "! read leniently: a comma behind the last member" in called.stderr


def test_a_contract_holds_for_a_resume_where_it_is_given_again(agent: Ao) -> None:
    answers = ['{"n": 1}', "free text", '{"n": 2}']
    first = play(agent, "--output-schema", "schema.json", answers=answers)
    free = agent("resume", "last", "-p", "more")
    again = agent("resume", "last", "-p", "more", "--output-schema", "schema.json")

    assert (first.document, free.stdout, again.document) == ({"n": 1}, "free text\n", {"n": 2})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(
            ["helper.json", "--output-schema", "schema.json", "--output-schema-name", "count"],
            "--output-schema-name: contradicts output_schema",
            id="two schemas",
        ),
        pytest.param(["helper.json", "--output-schema-name", "count"], "there is no schema 'count'", id="unknown name"),
        pytest.param(
            ["helper.json", "--output-option", "max_retries=1"],
            "--output-option: needs an output schema, and there is none",
            id="options alone",
        ),
        pytest.param(
            ["strict.json", "--output-schema", "helper.json"],
            "the run's output_schema cannot replace the agent's output_schema, which is authoritative",
            id="the designer's overridden",
        ),
        pytest.param(
            ["strict.json", "--output-option", "max_retries=5"],
            "the run's output_schema_options (max_retries) cannot replace",
            id="the designer's loosened",
        ),
        pytest.param(
            ["helper.json", "--output-schema", "schema.json", "--output-option", "retries=1"],
            '--output-option retries: is not known; known are "ambiguous", "extract_json"',
            id="unknown option",
        ),
        pytest.param(
            [
                *("helper.json", "--output-schema", "schema.json"),
                *("--output-option", "strict_json_only=true", "--output-option", "extract_json=true"),
            ],
            "--output-option extract_json: true contradicts strict_json_only",
            id="contradictory options",
        ),
        pytest.param(
            ["helper.json", "--output-schema", "schema.json", "--output-option", "max_retries"],
            "'max_retries' is not K=V",
            id="half an option",
        ),
    ],
)
def test_a_demand_that_cannot_be_had_is_refused_and_nothing_is_run(
    agent: Ao, arguments: list[str], sentence: str
) -> None:
    called = agent("run", *arguments, "-p", "x", "--executor", "scripted")

    assert called.exit_code == 2
    assert sentence in " ".join(called.stderr.split())
    assert agent("sessions", "--json").document == []


def test_a_schema_that_is_none_is_refused_with_its_places(agent: Ao) -> None:
    agent.write("bad.json", '{"type": "object", "properties": {"n": {"type": "int"}}}')
    called = agent("run", "helper.json", "-p", "x", "--output-schema", "bad.json")

    assert called.exit_code == 2
    assert "bad.json cannot be used as an output schema" in called.stderr
    assert "$.properties.n.type" in called.stderr


def test_a_result_that_lies_is_found_out_where_that_is_wished(agent: Ao) -> None:
    liar = miniature("claims_what_does_not_fit")
    arguments = ("run", "strict.json", "-p", '{"n": "x"}', "--executor", liar)
    trusted, verified = agent(*arguments), agent(*arguments, "--verify-results")

    assert (trusted.exit_code, trusted.document) == (0, {"n": "x"})
    assert verified.exit_code == 1
    assert "protocol_violation" in verified.stderr
    assert '$.n: "x" is not of type "integer"' in verified.stderr


@pytest.mark.parametrize(
    ("blueprint", "problem"),
    [
        ({"default_output_schema": {"type": "int"}}, "$.default_output_schema.type"),
        (
            {"default_output_schema": SCHEMA, "default_output_schema_options": {"max_retries": 11}},
            "$.default_output_schema_options.max_retries: expected an integer from 0 to 10, found 11",
        ),
        ({"output_format": {"type": "poem"}}, "$.output_format.type"),
        ({"output_format": {"type": "agent_response"}, "output_schema": SCHEMA}, "contradict each other"),
    ],
    ids=["default schema", "default options", "unknown format", "two contracts"],
)
def test_a_blueprint_whose_contract_cannot_be_kept_is_found_out(
    agent: Ao, blueprint: dict[str, Any], problem: str
) -> None:
    agent.write("odd.json", json.dumps({"name": "odd", **blueprint}))
    called = agent("blueprint", "check", "odd.json")

    assert called.exit_code == 1
    assert problem in called.stderr


def test_a_contract_that_can_never_count_is_remarked_on(agent: Ao) -> None:
    agent.write("odd.json", json.dumps({"name": "odd", "output_schema": SCHEMA, "default_output_schema": SCHEMA}))
    called = agent("blueprint", "check", "odd.json")

    assert called.exit_code == 0
    assert "$.default_output_schema: never used" in called.stderr


@pytest.mark.parametrize("field", ["parameters_schema", "output_schema", "default_output_schema"])
def test_a_blueprint_is_told_the_same_of_its_schemas_as_a_schema_alone(ao: Ao, field: str) -> None:
    schema = {"properties": {"a": {"format": "emial"}, "b": {"minItem": 1}}}
    ao.write("schema.json", json.dumps(schema))
    ao.write("odd.json", json.dumps({"name": "odd", field: schema}))

    alone = ao("schema", "check", "schema.json", "--json").document["remarks"]
    checked = ao("blueprint", "check", "odd.json", "--json")

    assert checked.exit_code == 0
    assert len(alone) == 2
    assert checked.document["remarks"] == [f"$.{field}{remark.removeprefix('$')}" for remark in alone]


def test_an_answer_of_a_pydantic_model_with_a_time_is_one_that_the_model_reads(ao: Ao) -> None:
    class Meeting(BaseModel):
        when: datetime

    ao.write("helper.json", json.dumps({"name": "helper"}))
    ao.write("meeting.json", json.dumps(Meeting.model_json_schema()))
    answers = ['{"when": "tomorrow"}', '{"when": "2026-01-31T12:00:00Z"}']
    called = play(ao, "--output-schema", "meeting.json", answers=answers)

    assert called.exit_code == 0
    assert '"tomorrow" does not have the format "date-time"' in called.stderr
    assert Meeting.model_validate_json(called.stdout).when.isoformat() == "2026-01-31T12:00:00+00:00"


CONTINUED = pytest.mark.parametrize(
    "verb", [["resume", "last"], ["submit", "--session", "last"]], ids=["resume", "submit"]
)


@CONTINUED
def test_a_further_run_may_ask_for_free_text_where_the_schema_is_a_default(agent: Ao, verb: list[str]) -> None:
    play(agent, answers=['{"n": 1}', "free text"], blueprint="usual.json")

    agent(*verb, "-p", "x", "--no-schema")
    agent("worker", "--until-idle")

    assert agent("result", "last").stdout == "free text\n"


@CONTINUED
def test_free_text_is_refused_where_the_schema_is_the_designers(agent: Ao, verb: list[str]) -> None:
    play(agent, answers=['{"n": 1}', "free text"], blueprint="strict.json")

    called = agent(*verb, "-p", "x", "--no-schema")

    assert called.exit_code == 2
    assert "the agent's designer demands a schema" in called.stderr
    assert len(agent("runs", "--json").document) == 1
