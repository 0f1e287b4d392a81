"""What the gate of a run finds in its events, and what expressions over its answer decide."""

from typing import Any

import pytest

from ao_runner.runs.expressions import Expression, NoExpression
from ao_runner.runs.gate import reasons_in, verdict_of

ANSWER: Any = {"approval": "approve", "comments": [{"severity": "blocker", "file": "a.py"}], "risk": None, "none": []}
ENDED: dict[str, Any] = {"event_type": "result", "result_text": None, "result_data": ANSWER, "stop_reason": "end_turn"}
BEGUN = {"event_type": "tool_started", "tool_call_id": "c1", "tool_name": "Bash", "tool_input": {"command": "make"}}
SAID = {
    "event_type": "message",
    "message_id": "m1",
    "role": "assistant",
    "content": [{"type": "text", "text": "Done."}],
}
RUNS_ON = {"event_type": "_ao/unfinished", "message": "make runs", "tool_call_id": "c1"}
FITS = {"event_type": "output_validation", "attempt": 1, "valid": True, "errors": [], "retries_left": 1}
ASKED = {
    "event_type": "input_requested", "request_id": "r1", "kind": "permission", "title": "May Bash run?",
    "tool_call_id": "c1", "options": [{"id": "no", "label": "No", "effect": "deny"}],
}  # fmt: skip


def finished(status: str, **fields: object) -> dict[str, Any]:
    return {"event_type": "tool_finished", "tool_call_id": "c1", "tool_name": "Bash", "status": status, **fields}


def resolved(outcome: str, by: str) -> dict[str, Any]:
    return {"event_type": "input_resolved", "request_id": "r1", "outcome": outcome, "by": by}


def reasons(*events: dict[str, Any], end: dict[str, Any] = ENDED) -> list[str]:
    return [f"{reason.kind}: {reason.message}" for reason in reasons_in([*events, end])]


def test_a_run_without_a_denied_or_unfinished_call_passes() -> None:
    assert reasons(BEGUN, finished("completed"), SAID) == []


@pytest.mark.parametrize("word", [SAID, FITS, {**BEGUN, "tool_call_id": "c2"}], ids=lambda word: word["event_type"])
def test_a_call_that_failed_and_after_which_the_agent_went_on_is_not_unfinished(word: dict[str, Any]) -> None:
    assert reasons(BEGUN, finished("failed", error="Exit code 1"), word) == []


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([BEGUN, finished("denied", error="allow it"), SAID], "denied: Bash: allow it"),
        ([BEGUN, ASKED, resolved("declined", "person"), finished("denied"), SAID], "denied: Bash"),
        ([ASKED, resolved("declined", "person")], "denied: May Bash run?: the request was declined, by person"),
        ([ASKED, resolved("expired", "timeout")], "denied: May Bash run?: the request was expired, by timeout"),
        ([ASKED, resolved("cancelled", "policy")], "unfinished: May Bash run?: the request was cancelled, by policy"),
        ([BEGUN, finished("cancelled")], "unfinished: Bash was cancelled"),
        (
            [BEGUN, SAID, finished("failed", tool_input={"command": "make"}, error="ended")],
            'unfinished: Bash {"command": "make"} failed, and the run ended: ended',
        ),
        (
            [BEGUN, RUNS_ON, finished("failed")],
            "unfinished: make runs",
        ),
        # With the protocol of ACP the answer comes after the end of such a call.
        (
            [
                BEGUN,
                {"event_type": "_ao/unfinished", "message": "it runs", "tool_call_id": "c1"},
                finished("failed"),
                SAID,
            ],
            "unfinished: it runs",
        ),
        ([{"event_type": "_ao/unfinished", "message": "tail"}, SAID], "unfinished: tail"),
    ],
    ids=[
        *("a denied call", "a declined call", "a declined request", "nobody answered", "the run ended while it asked"),
        *("a cancelled call", "a call that the end ended", "one that is told", "one that is told early", "a process"),
    ],
)
def test_what_was_denied_or_left_unfinished_is_told_once(events: list[dict[str, Any]], found: str) -> None:
    assert reasons(*events) == [found]


@pytest.mark.parametrize("cut", [{"stop_reason": "max_tokens"}, {"truncated": True, "original_bytes": 9}])
def test_an_answer_that_was_cut_off_is_unfinished(cut: dict[str, object]) -> None:
    (reason,) = reasons(end={**ENDED, "result_data": None, "result_text": "Half", **cut})
    assert reason.startswith("unfinished: the answer was cut off")


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("approval != 'approve'", None),
        ("length(comments[?severity=='blocker']) > `0`", "is true"),
        ("approval == 'approve' && contains(comments[].severity, 'blocker')", "is true"),
        ("risk == `null`", "is true"),
        # What is neither true nor false is refused, whatever JMESPath takes for true.
        ("comments[?severity=='none']", "neither true nor false, but []; for a list write: length("),
        ("approvl", "neither true nor false, but null"),
        ("approval", 'neither true nor false, but "approve"'),
        ("length(comments)", "neither true nor false, but 1"),
        # A wrong name, or double quotes in place of single ones, would be a comparison that is never true.
        ("aproval == 'request_changes'", "it compares null: aproval is not in the answer"),
        ('approval == "request_changes"', "it compares null: request_changes is not in the answer"),
        ("length(comments[?sevrity=='blocker']) > `0`", "it compares null: sevrity is not in the answer"),
        ("contains(comments[].sevrity, 'blocker')", "no item of a list has sevrity"),
        ("contains(none[].severity, 'blocker')", None),
        ("risk > `3`", "it compares null"),
        ("length(findings) > `0`", "invalid type"),
        ("approval > `3`", "has no value"),
    ],
)
def test_only_an_expression_that_is_false_lets_a_result_pass(expression: str, found: str | None) -> None:
    refused = verdict_of(Expression.parse(expression), ANSWER)
    assert (refused is None) == (found is None)
    assert refused is None or (found or "") in refused.message


def test_an_expression_reads_an_answer_that_is_text() -> None:
    assert verdict_of(Expression.parse("contains(@, 'FAIL')"), "VERDICT: FAIL") is not None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("comments[?", "Incomplete"),
        ("length(comments) > 0", "invalid token"),
        ("count(comments)", "no function count; there are abs,"),
        ("(" * 9000, "recursion"),
    ],
)
def test_what_is_no_expression_is_refused(text: str, why: str) -> None:
    with pytest.raises(NoExpression, match=why):
        Expression.parse(text)
