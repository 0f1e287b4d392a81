"""The loop of asking, judging and asking again, played by the scripted executor."""

from pathlib import Path
from typing import Any

import pytest

from tests.executors.driver import Run, bare_environment, installed, invocation, run
from tests.executors.homemade import homemade

SCRIPTED = [installed("ao-scripted-exec")]
SCHEMA = {"type": "object", "required": ["answer"], "properties": {"answer": {"type": "integer"}}}
BLUEPRINT = {"name": "a", "output_schema": SCHEMA}
WRONG = {"text": 'MARK {"answer": "MARK forty-two"} MARK'}
RIGHT = {"text": 'Here it is:\n```json\n{"answer": 42}\n```'}


def play(*answers: dict[str, Any], **fields: object) -> Run:
    return run(SCRIPTED, invocation(executor_config={"script": {"answers": answers}}, **fields))


@pytest.mark.requirement("AOX-167")
@pytest.mark.requirement("AOX-173")
@pytest.mark.requirement("AOX-176")
def test_an_answer_that_fits_is_accepted_at_once() -> None:
    ended = play(RIGHT, agent_blueprint=BLUEPRINT)

    assert ended.terminal["result_data"] == {"answer": 42}
    assert ended.terminal["result_text"] is None
    assert ended.terminal["output"] == {
        "schema_source": "blueprint",
        "retry_count": 0,
        "ambiguous": False,
        "strategy": "system_prompt",
        "sent": ["system_prompt"],
        "delivered_by": "text",
    }
    assert [(v["attempt"], v["valid"]) for v in ended.of_type("output_validation")] == [(1, True)]
    assert [m["content"][0]["text"] for m in ended.of_type("message")] == [RIGHT["text"]]


@pytest.mark.requirement("AOX-171")
@pytest.mark.requirement("AOX-173")
@pytest.mark.requirement("AOX-175")
@pytest.mark.requirement("AOX-176")
def test_an_answer_that_does_not_fit_is_asked_for_again() -> None:
    ended = play(WRONG, RIGHT, agent_blueprint=BLUEPRINT)

    first, second = ended.of_type("output_validation")
    assert (first["attempt"], first["valid"], first["retries_left"]) == (1, False, 1)
    assert first["errors"] == ["$.answer: 'MARK forty-two' is not of type 'integer'"]
    assert (second["attempt"], second["valid"]) == (2, True)
    assert ended.terminal["output"]["retry_count"] == 1
    assert [m["content"][0]["text"] for m in ended.of_type("message")] == [RIGHT["text"]]


@pytest.mark.requirement("AOX-174")
@pytest.mark.requirement("AOX-175")
def test_the_designers_contract_gives_up_after_one_retry() -> None:
    ended = play(WRONG, {"text": "MARK no JSON at all"}, RIGHT, agent_blueprint=BLUEPRINT)

    assert ended.error["type"] == "output_schema_validation_failed"
    assert ended.error["origin"] == "model"
    assert ended.error["validation_errors"]
    assert ended.exit_code == 1
    assert ended.of_type("message") == []
    assert b'"MARK ' not in ended.stdout
    assert b"no JSON at all" not in ended.stdout


@pytest.mark.requirement("AOX-174")
@pytest.mark.parametrize(
    ("options", "attempts"), [(None, 3), ({"max_retries": 0}, 1), ({"max_retries": 1}, 2)], ids=["default", "0", "1"]
)
def test_a_callers_contract_gives_up_after_its_retries(options: dict[str, int] | None, attempts: int) -> None:
    ended = play(*[WRONG] * 4, output_schema=SCHEMA, output_schema_options=options)

    assert ended.error["type"] == "schema_validation_failed"
    assert len(ended.of_type("output_validation")) == attempts


@pytest.mark.requirement("AOX-161")
@pytest.mark.parametrize(
    ("fields", "what"),
    [
        pytest.param({"output_schema": {}}, "the run's output_schema cannot replace", id="another schema"),
        pytest.param({"output_schema_options": {"max_retries": 9}}, "(max_retries) cannot replace", id="options"),
    ],
)
def test_a_caller_who_overrides_the_designers_contract_is_refused(fields: dict[str, Any], what: str) -> None:
    ended = play(RIGHT, agent_blueprint=BLUEPRINT, **fields)

    assert (ended.error["type"], ended.exit_code) == ("invalid_invocation", 64)
    assert what in ended.error["message"]
    assert "which is authoritative" in ended.error["message"]
    (problem,) = ended.error["details"]["problems"]
    assert what in problem


@pytest.mark.requirement("AOX-160")
def test_the_designers_default_holds_until_the_caller_says_otherwise() -> None:
    blueprint = {"name": "a", "default_output_schema": SCHEMA, "default_output_schema_options": {"max_retries": 0}}
    by_default = play(WRONG, agent_blueprint=blueprint)
    by_the_caller = play(WRONG, agent_blueprint=blueprint, output_schema={"type": "object"})

    assert by_default.error["type"] == "schema_validation_failed"
    assert len(by_default.of_type("output_validation")) == 1
    assert by_the_caller.terminal["output"]["schema_source"] == "inline"


@pytest.mark.requirement("AOX-177")
def test_a_strategy_that_the_executor_does_not_have_is_refused() -> None:
    ended = play(RIGHT, output_schema=SCHEMA, output_schema_options={"strategy": "native"})

    assert (ended.error["type"], ended.exit_code) == ("unsupported_capability", 64)
    assert ended.error["details"] == {"missing": ["output_schema.strategies:native"]}


@pytest.mark.requirement("AOX-177")
@pytest.mark.requirement("AOX-179")
@pytest.mark.parametrize(
    ("options", "sent"),
    [
        pytest.param(None, ["system_prompt", "re_prompt"], id="usual"),
        pytest.param({"strategy": "prompt"}, ["prompt", "re_prompt"], id="prompt"),
        pytest.param({"strategy": "auto"}, ["system_prompt", "re_prompt"], id="auto"),
        pytest.param({"strategy": "extract", "max_retries": 1}, ["nothing", "re_prompt"], id="extract"),
    ],
)
def test_the_result_says_what_was_sent_and_how_often(options: dict[str, Any] | None, sent: list[str]) -> None:
    ended = play(WRONG, RIGHT, output_schema=SCHEMA, output_schema_options=options)

    assert ended.terminal["output"]["sent"] == sent
    assert ended.terminal["output"]["retry_count"] == 1


@pytest.mark.requirement("AOX-180")
def test_options_that_are_none_are_told_with_their_places() -> None:
    ended = play(RIGHT, output_schema=SCHEMA, output_schema_options={"max_retries": 11, "foo": 1})

    assert (ended.error["type"], ended.exit_code) == ("invalid_invocation", 64)
    assert [problem.split(":")[0] for problem in ended.error["details"]["problems"]] == [
        "$.output_schema_options.max_retries",
        "$.output_schema_options.foo",
    ]


def test_what_lenient_reading_passed_over_stands_in_the_result() -> None:
    ended = play(
        {"text": '{"answer": 42,}'}, output_schema=SCHEMA, output_schema_options={"validation_mode": "lenient"}
    )

    assert ended.terminal["result_data"] == {"answer": 42}
    assert len(ended.terminal["output"]["edits"]) == 1


def test_the_environment_sets_what_holds_where_the_caller_says_nothing() -> None:
    environment = {**bare_environment(), "SCHEMA_ENFORCEMENT_MAX_RETRIES": "0"}
    ended = run(
        SCRIPTED, invocation(executor_config={"script": {"answers": [WRONG]}}, output_schema=SCHEMA), env=environment
    )

    assert ended.error["type"] == "schema_validation_failed"
    assert ended.error["message"] == "Output did not match schema after 0 retries"


def test_a_default_that_cannot_be_meant_stops_no_run_without_a_contract() -> None:
    environment = {**bare_environment(), "SCHEMA_ENFORCEMENT_MAX_RETRIES": "x"}
    ended = run(SCRIPTED, invocation(executor_config={"script": {"answers": [RIGHT]}}), env=environment)

    assert ended.exit_code == 0


XML = '<agent_response agent="sentinel" version="1.0"><summary>One issue</summary></agent_response>'


@pytest.mark.requirement("AOX-182")
@pytest.mark.parametrize(
    ("form", "answer"),
    [
        ("xml", f"Here you are.\n\n{XML}"),
        ("json", '```json\n{"agent": "sentinel", "summary": "One issue"}\n```'),
        ("markdown", "---\nagent: sentinel\n---\n\n## Summary\n\nOne issue\n"),
    ],
)
def test_an_agents_response_becomes_its_model_whatever_its_form(form: str, answer: str) -> None:
    blueprint = {"name": "a", "output_format": {"type": "agent_response", "form": form}}
    ended = play({"text": "It is fine."}, {"text": answer}, agent_blueprint=blueprint)

    assert ended.terminal["result_data"] == {
        "agent": "sentinel",
        "version": "1.0",
        "summary": "One issue",
        "findings": [],
    }
    assert ended.terminal["output"]["schema_source"] == "blueprint"
    assert ended.terminal["output"]["retry_count"] == 1


@pytest.mark.requirement("AOX-182")
def test_an_agents_response_is_asked_for_again_once() -> None:
    blueprint = {"name": "a", "output_format": {"type": "agent_response"}}
    ended = play(*[{"text": XML.replace("summary", "MARK")}] * 3, agent_blueprint=blueprint)

    assert ended.error["type"] == "output_schema_validation_failed"
    assert all(error.startswith("$: line 1") for error in ended.error["validation_errors"])
    assert len(ended.of_type("output_validation")) == 2
    assert ended.of_type("message") == []


@pytest.mark.requirement("AOX-181")
def test_a_format_that_the_executor_does_not_know_is_refused(tmp_path: Path) -> None:
    program = homemade(tmp_path, "return done", output_schema={"strategies": ["system_prompt"]})
    ended = run(program, invocation(agent_blueprint={"name": "a", "output_format": {"type": "agent_response"}}))

    assert (ended.error["type"], ended.exit_code) == ("unsupported_capability", 64)
    assert ended.error["details"] == {"missing": ["output_schema.formats:agent_response"]}


@pytest.mark.requirement("AOX-162")
def test_the_contract_holds_on_a_resume() -> None:
    ended = play(
        WRONG,
        WRONG,
        WRONG,
        agent_blueprint=BLUEPRINT,
        mode="resume",
        executor_session_id="scripted_0123456789abcdef_1",
    )

    assert ended.error["type"] == "output_schema_validation_failed"


@pytest.mark.requirement("AOX-163")
def test_a_schema_that_is_none_is_refused() -> None:
    ended = play(RIGHT, agent_blueprint={"name": "a", "output_schema": {"type": "no type"}})

    assert (ended.error["type"], ended.exit_code) == ("invalid_output_schema", 64)


@pytest.mark.requirement("AOX-170")
def test_an_answer_that_was_cut_off_is_not_asked_for_again() -> None:
    ended = play({"text": '{"answer": 4', "truncated": True, "stop_reason": "max_tokens"}, RIGHT, output_schema=SCHEMA)

    assert ended.error["type"] == "output_truncated"


@pytest.mark.requirement("AOX-168")
def test_an_answer_with_two_values_says_so() -> None:
    ended = play({"text": 'Either {"answer": 1} or {"answer": 2}.'}, output_schema=SCHEMA)

    assert ended.terminal["result_data"] == {"answer": 2}
    assert ended.terminal["output"]["ambiguous"] is True


@pytest.mark.requirement("AOX-075")
def test_a_contract_may_be_met_by_null() -> None:
    ended = play({"text": "null"}, output_schema={"type": "null"})

    assert (ended.terminal["result_text"], ended.terminal["result_data"]) == (None, None)
    assert ended.exit_code == 0


@pytest.mark.requirement("AOX-028")
@pytest.mark.requirement("AOX-029")
def test_a_verdict_fits_a_line_however_much_is_wrong() -> None:
    wrong = {"json": [{"name": "x" * 300} for _ in range(50)]}
    schema = {"type": "array", "items": {"properties": {"name": {"maxLength": 3}}}}
    ended = play(
        wrong, output_schema=schema, output_schema_options={"max_retries": 0}, limits={"max_event_bytes": 4096}
    )

    assert ended.error["type"] == "schema_validation_failed"
    assert max(map(len, ended.stdout.splitlines(keepends=True))) <= 4096
