"""Which answer a request gets, and which requests get none."""

from typing import Any

import pytest

from ao_model_simulator import Expectation, ModelRequest, Script, Verdict, find_mismatches
from ao_model_simulator.playback import Decision, Playback

BODY: dict[str, Any] = {
    "model": "claude-x",
    "max_tokens": 100,
    "stream": True,
    "system": [{"type": "text", "text": "You are a tester."}, {"type": "text", "text": "Answer in JSON.\n"}],
    "tools": [{"name": "Bash"}, {"name": "Read"}],
    "messages": [
        {"role": "user", "content": "First."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "from bash"}]},
                {"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"},
                {"type": "text", "text": "Second."},
            ],
        },
        {"role": "system", "content": "The date has changed."},
    ],
}


def a_request(**changes: Any) -> ModelRequest:
    return ModelRequest("POST", "/v1/messages?beta=true", {}, BODY | changes)


def decide_all(playback: Playback, count: int) -> list[str | None]:
    decisions = [playback.decide(a_request()) for _ in range(count)]
    return [decision.answer.text if decision.answer else None for decision in decisions]


def test_answers_are_given_in_order() -> None:
    playback = Playback(Script.from_answers([{"text": "a"}, {"text": "b", "repeat": 2}, {"text": "c"}]))
    assert decide_all(playback, 4) == ["a", "b", "b", "c"]
    assert playback.left == 0


def test_an_answer_that_repeats_forever_is_never_used_up() -> None:
    playback = Playback(Script.from_answers([{"text": "a"}, {"text": "b", "repeat": "forever"}]))
    assert playback.left == 2
    assert decide_all(playback, 5) == ["a", "b", "b", "b", "b"]
    assert playback.left == 0


def test_a_request_that_the_api_would_refuse_is_not_answered() -> None:
    playback = Playback(Script.from_answers([{"text": "a"}]))
    decision = playback.decide(ModelRequest("POST", "/v1/messages", {}, {"model": "m", "messages": []}))
    problems = [
        f"request 1: the body has no {name!r}, which the Messages API requires" for name in ("max_tokens", "messages")
    ]
    assert decision == Decision(Verdict.UNEXPECTED, problems=tuple(problems))
    assert playback.left == 1


def test_a_mismatch_leaves_the_answer_for_the_request_that_it_was_written_for() -> None:
    playback = Playback(Script.from_answers([{"text": "a", "expect": {"model": "claude-x"}}]))
    problem = "request 1: answers[0].expect.model: expected 'claude-x', found 'claude-y'"
    assert playback.decide(a_request(model="claude-y")) == Decision(Verdict.MISMATCHED, None, 0, (problem,))
    assert decide_all(playback, 1) == ["a"]


NOT_HELD: dict[str, tuple[dict[str, Any], str]] = {
    "model": ({"model": "m"}, "model: expected 'm', found 'claude-x'"),
    "stream": ({"stream": False}, "stream: expected False, found True"),
    "system": (
        {"system_contains": ["tester", "poet"]},
        "system_contains: 'poet' is not in 'You are a tester.\\n\\nAnswer in JSON.\\n'",
    ),
    "system end": (
        {"system_ends_with": "tester."},
        "system_ends_with: expected 'tester.' at the end of 'You are a tester.\\n\\nAnswer in JSON.\\n'",
    ),
    "not in system": (
        {"system_lacks": ["poet", "tester"]},
        "system_lacks: 'tester' is in 'You are a tester.\\n\\nAnswer in JSON.\\n'",
    ),
    "twice": (
        {"conversation_contains_once": ["Second.", "system-reminder"]},
        "conversation_contains_once: 'system-reminder' is there 2 times",
    ),
    "last user": ({"last_user_contains": "First"}, "last_user_contains: 'First' is not in 'Second.'"),
    "last user exactly": (
        {"last_user_equals": "Second"},
        "last_user_equals: expected 'Second', found 'Second.'",
    ),
    "tool result": ({"tool_result_contains": "x"}, "tool_result_contains: 'x' is not in 'from bash'"),
    "any tool result": (
        {"any_tool_result_contains": "x"},
        "any_tool_result_contains: 'x' is not in 'from bash'",
    ),
    "schema": ({"schema_contains": "verdict"}, "schema_contains: 'verdict' is not in ''"),
    "message count": ({"messages_count": 1}, "messages_count: expected 1, found 4"),
    "missing tool": (
        {"tool_names_include": ["Write"]},
        "tool_names_include: 'Write' is not among ['Bash', 'Read']",
    ),
    "forbidden tool": (
        {"tool_names_exclude": ["Bash"]},
        "tool_names_exclude: 'Bash' is among ['Bash', 'Read']",
    ),
}


@pytest.mark.parametrize(("expectation", "sentence"), NOT_HELD.values(), ids=NOT_HELD.keys())
def test_an_expectation_that_is_not_met_says_what_was_found(expectation: dict[str, Any], sentence: str) -> None:
    assert find_mismatches(Expectation.model_validate(expectation), a_request()) == [sentence]


def test_a_long_system_prompt_is_cut_short_in_the_message() -> None:
    (sentence,) = find_mismatches(Expectation(system_contains="poet"), a_request(system="x" * 100_000))
    assert len(sentence) < 400
    assert sentence.endswith("(100000 characters)")
