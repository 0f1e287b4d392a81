"""What an agent's model thinks, and what its sub-agents say and do."""

from pathlib import Path
from typing import Any

from tests.process.executors.acp.scripted_runs import ask
from tests.process.executors.driver import Run

CONTRACT = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


def said(ended: Run) -> list[tuple[str, str, str | None]]:
    """Return kind, text and parent of each message."""
    messages = [(event["content"][0], event.get("parent_tool_call_id")) for event in ended.of_type("message")]
    return [(block["type"], block["text"], parent) for block, parent in messages]


def pieces_of(ended: Run, message: dict[str, Any]) -> str:
    deltas = [event for event in ended.of_type("message_delta") if event["message_id"] == message["message_id"]]
    assert {event.get("parent_tool_call_id") for event in deltas} == {message.get("parent_tool_call_id")}
    return "".join(event["content"][0]["text"] for event in deltas)


def test_thoughts_are_reasoning_and_no_part_of_the_answer(tmp_path: Path) -> None:
    ended = ask(tmp_path, "thinks")

    assert said(ended) == [
        ("reasoning", "Two or three?", None),
        ("reasoning", "Aside.", None),
        ("text", "Let me look.", None),
        ("reasoning", "Three.", None),
        ("text", '{"n": 3}', None),
    ]
    assert ended.terminal["result_text"] == '{"n": 3}'
    for message in ended.of_type("message"):
        assert pieces_of(ended, message) == message["content"][0]["text"]


def test_thoughts_are_not_reported_on_request(tmp_path: Path) -> None:
    ended = ask(tmp_path, "thinks", settings={"show_reasoning": False})

    assert [kind for kind, _, _ in said(ended)] == ["text", "text"]
    assert b"three?" not in ended.stdout


def test_thoughts_are_not_judged_by_a_contract(tmp_path: Path) -> None:
    ended = ask(tmp_path, "thinks", output_schema=CONTRACT)

    assert ended.terminal["result_data"] == {"n": 3}
    assert [event["valid"] for event in ended.of_type("output_validation")] == [True]
    assert [text for kind, text, _ in said(ended) if kind == "reasoning"] == ["Two or three?", "Aside.", "Three."]
    assert {event["content"][0]["type"] for event in ended.of_type("message_delta")} == {"reasoning"}


def test_the_work_of_sub_agents_has_a_parent_and_is_not_the_answer(tmp_path: Path) -> None:
    ended = ask(tmp_path, "delegates")

    assert said(ended) == [
        ("text", "I ask two.", None),
        ("reasoning", "First thinks.", "task_1"),
        ("text", "First says.", "task_1"),
        ("reasoning", "Second thinks.", "task_2"),
        ("text", "Second answers.", "task_2"),
        ("text", "Both are done.", None),
    ]
    assert ended.terminal["result_text"] == "Both are done."
    assert {event["tool_call_id"]: event.get("parent_tool_call_id") for event in ended.of_type("tool_started")} == {
        "task_1": None,
        "task_2": None,
        "call_1": "task_1",
    }
    assert [(event["tool_call_id"], event["status"]) for event in ended.of_type("tool_finished")] == [
        ("task_2", "completed"),
        ("call_1", "cancelled"),
        ("task_1", "completed"),
    ]


def test_messages_of_sub_agents_are_not_held_back_by_a_contract(tmp_path: Path) -> None:
    ended = ask(tmp_path, "delegates", output_schema=CONTRACT, settings={"streaming": False})

    assert ("text", "First says.", "task_1") in said(ended)
    assert not ended.of_type("message_delta")
