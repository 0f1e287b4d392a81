"""What happens with each answer to an output contract."""

from dataclasses import replace
from typing import Any

import pytest

from ao_protocol.contracts.contract import (
    AgentResponseFormat,
    JsonFormat,
    OutputContract,
    SchemaSource,
    Strategy,
    ValidationMode,
)
from ao_protocol.contracts.enforcement import (
    Accepted,
    AlreadyDecided,
    AskAgain,
    Enforcement,
    GiveUp,
    NativeOutput,
    missing_answer_feedback,
    validation_feedback,
)
from ao_protocol.contracts.problems import Problem
from ao_protocol.errors import ErrorType

SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
WRONG = Problem("$.n", "'x' is not of type 'integer'")


DESIGNERS = OutputContract(JsonFormat(SCHEMA), SchemaSource.BLUEPRINT, max_retries=1)
CALLERS = OutputContract(JsonFormat(SCHEMA), SchemaSource.INLINE)


def blueprint() -> Enforcement:
    return Enforcement(DESIGNERS)


def inline(**options: Any) -> Enforcement:
    return Enforcement(replace(CALLERS, **options))


def test_a_valid_answer_is_accepted_at_once() -> None:
    assert blueprint().judge('{"n": 1}') == Accepted({"n": 1}, retry_count=0, ambiguous=False)


@pytest.mark.requirement("AOX-171")
def test_a_wrong_answer_is_asked_for_again_and_a_right_one_then_accepted() -> None:
    enforcement = blueprint()

    assert enforcement.judge('{"n": "x"}') == AskAgain(
        validation_feedback([WRONG], DESIGNERS, '{"n": "x"}'), (WRONG,), retries_left=1, attempt=1
    )
    assert enforcement.judge('{"n": 2}') == Accepted({"n": 2}, retry_count=1, ambiguous=False)


def test_the_designers_contract_is_given_up_after_one_retry() -> None:
    enforcement = blueprint()
    enforcement.judge('{"n": "x"}')
    outcome = enforcement.judge('{"n": "x"}')

    assert outcome == GiveUp((WRONG,), attempt=2, error_type=ErrorType.OUTPUT_SCHEMA_VALIDATION_FAILED)
    assert isinstance(outcome, GiveUp)
    assert outcome.message == "Output did not match schema after 1 retry"


def test_the_callers_contract_is_given_up_after_its_retries() -> None:
    enforcement = inline(max_retries=2)
    moves = [enforcement.judge('{"n": "x"}') for _ in range(3)]

    assert [type(move) for move in moves] == [AskAgain, AskAgain, GiveUp]
    assert [move.retries_left for move in moves if isinstance(move, AskAgain)] == [2, 1]
    assert moves[-1] == GiveUp((WRONG,), attempt=3, error_type=ErrorType.SCHEMA_VALIDATION_FAILED)


def test_without_retries_the_first_wrong_answer_is_the_last() -> None:
    assert inline(max_retries=0).judge("no") == GiveUp(
        (Problem("$", "The answer holds no JSON value"),), attempt=1, error_type=ErrorType.SCHEMA_VALIDATION_FAILED
    )


def test_an_answer_without_json_is_asked_for_again_with_the_reason() -> None:
    reason = "The answer holds no JSON value"

    assert inline().judge("I cannot do that.") == AskAgain(
        missing_answer_feedback(reason, CALLERS, "I cannot do that."),
        (Problem("$", reason),),
        retries_left=2,
        attempt=1,
    )


@pytest.mark.requirement("AOX-170")
def test_a_truncated_answer_is_given_up_at_once_whatever_it_holds() -> None:
    outcome = inline(max_retries=5).judge('{"n": 1}', truncated=True)

    assert outcome == GiveUp(
        (Problem("$", "the answer was cut off at the output limit"),), attempt=1, error_type=ErrorType.OUTPUT_TRUNCATED
    )
    assert isinstance(outcome, GiveUp)
    assert outcome.message == "Output was cut off at the output limit; asking again would end at the same limit"


def test_prose_around_the_json_is_allowed_unless_the_caller_forbids_it() -> None:
    answer = 'Here it is:\n```json\n{"n": 1}\n```\n'

    assert inline().judge(answer) == Accepted({"n": 1}, retry_count=0, ambiguous=False)
    for options in ({"strict_json_only": True}, {"extract_json": False}):
        outcome = inline(**options).judge(answer)
        assert isinstance(outcome, AskAgain)
        assert outcome.problems == (Problem("$", "The answer holds other text than JSON, and only JSON is wanted"),)


def test_the_whole_text_as_json_is_accepted_where_only_json_is_wanted() -> None:
    assert inline(strict_json_only=True).judge(' {"n": 1}\n') == Accepted({"n": 1}, retry_count=0, ambiguous=False)


def test_lenient_reading_is_asked_for_and_told() -> None:
    answer = '{"n": 1,}'
    outcome = inline(validation_mode=ValidationMode.LENIENT).judge(answer)

    assert isinstance(inline().judge(answer), AskAgain)
    assert isinstance(outcome, Accepted)
    assert outcome.value == {"n": 1}
    assert len(outcome.edits) == 1


def test_an_answer_that_gives_two_valid_values_is_accepted_as_ambiguous() -> None:
    assert inline().judge('First {"n": 1}, or rather {"n": 2}.') == Accepted({"n": 2}, retry_count=0, ambiguous=True)


@pytest.mark.parametrize(
    ("answer", "truncated"),
    [pytest.param('{"n": 1}', False, id="accepted"), pytest.param("", True, id="given up")],
)
def test_nothing_is_judged_after_the_contract_is_settled(answer: str, truncated: bool) -> None:
    enforcement = inline()
    enforcement.judge(answer, truncated=truncated)

    with pytest.raises(AlreadyDecided, match="attempt 1 has settled the contract"):
        enforcement.judge('{"n": 1}')


def test_the_providers_value_is_judged_here_all_the_same() -> None:
    enforcement = inline(strategy=Strategy.NATIVE)

    refused = enforcement.judge("Done.", native=NativeOutput({"n": "x"}))
    assert isinstance(refused, AskAgain)
    assert refused.problems == (WRONG,)
    assert enforcement.judge("", native=NativeOutput({"n": 1})) == Accepted(
        {"n": 1}, retry_count=1, ambiguous=False, is_native=True
    )


def test_a_value_that_was_wrapped_for_the_provider_is_unwrapped() -> None:
    contract = OutputContract(JsonFormat({"type": "array"}), SchemaSource.INLINE, strategy=Strategy.NATIVE)

    assert Enforcement(contract).judge("", native=NativeOutput({"value": [1]})) == Accepted(
        [1], retry_count=0, ambiguous=False, is_native=True
    )


def test_where_the_provider_gave_nothing_the_text_is_judged() -> None:
    enforcement = inline(strategy=Strategy.NATIVE)

    assert isinstance(enforcement.judge("I would rather talk."), AskAgain)
    assert enforcement.judge('{"n": 1}') == Accepted({"n": 1}, retry_count=1, ambiguous=False)


RESPONSE = OutputContract(AgentResponseFormat("xml"), SchemaSource.BLUEPRINT, max_retries=1)
XML = '<agent_response agent="sentinel" version="1.0"><summary>Clean</summary></agent_response>'


def test_a_response_is_accepted_as_its_model() -> None:
    outcome = Enforcement(RESPONSE).judge(f"Here:\n\n{XML}\n")

    assert isinstance(outcome, Accepted)
    assert outcome.value == {"agent": "sentinel", "version": "1.0", "summary": "Clean", "findings": []}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param("Looks clean.", "found 'Looks clean.', expected a response written as xml", id="no response"),
        pytest.param(XML.replace("summary", "digest"), "expected <summary>", id="not as the XSD says"),
        pytest.param(
            '{"agent": "a", "summary": "s"}', "expected a response written as xml", id="another form than was asked for"
        ),
        pytest.param(XML.replace("1.0", "2.0"), "expected version 1.x", id="another major version"),
        pytest.param(XML.replace("Clean", "a && b"), "in which & is written &amp;", id="not well-formed"),
    ],
)
def test_a_response_that_does_not_fit_is_asked_for_again_with_what_is_wrong(answer: str, problem: str) -> None:
    outcome = Enforcement(RESPONSE).judge(answer)

    assert isinstance(outcome, AskAgain)
    assert problem in str(outcome.problems[0])
    assert problem in outcome.prompt


def test_everything_that_is_wrong_with_a_response_is_told_at_once() -> None:
    outcome = Enforcement(RESPONSE).judge(
        '<agent_response agent="a" version="1.0"><summary>s</summary><findings>'
        '<finding priority="high" location="x"><issue>i</issue><rationale>r</rationale></finding>'
        '<finding priority="P1"><issue>i</issue><rationale>r</rationale></finding></findings></agent_response>'
    )

    assert isinstance(outcome, AskAgain)
    assert len(outcome.problems) == 2


def test_what_was_repaired_in_a_response_is_told() -> None:
    contract = OutputContract(AgentResponseFormat("json"), SchemaSource.BLUEPRINT, max_retries=1)
    outcome = Enforcement(contract).judge('{"agent": "sentinel", "summary": "Clean",}')

    assert isinstance(outcome, Accepted)
    assert isinstance(outcome.value, dict)
    assert outcome.value["summary"] == "Clean"
    assert len(outcome.edits) == 1


def test_findings_as_lines_in_the_wrapper_are_not_what_the_xsd_wants() -> None:
    outcome = Enforcement(RESPONSE).judge(
        XML.replace("</summary>", "</summary><findings>\nFindings:\n- [P1] a — b:1 — c\n</findings>")
    )

    assert isinstance(outcome, AskAgain)
    assert "lines of text instead of elements" in str(outcome.problems[0])
