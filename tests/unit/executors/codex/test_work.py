"""The notifications of a thread as events. They are those that CLI 0.163 writes about a real stream of the API."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from ao_executors.codex.codex_turn import CodexMessages, CodexTools, CodexWork
from ao_executors.core import Emitter

Notify = Callable[..., None]
TWO_PARTS = (
    ("summaryPartAdded", {"summaryIndex": 0}),
    ("summaryTextDelta", {"summaryIndex": 0, "delta": "**On"}),
    ("summaryTextDelta", {"summaryIndex": 0, "delta": "e** first"}),
    ("summaryPartAdded", {"summaryIndex": 1}),
    ("summaryTextDelta", {"summaryIndex": 1, "delta": "**Two** second"}),
)


class Thread:
    """A thread of the CLI, and the events that its notifications became."""

    def __init__(self, parent: str | None = None, *, shows_reasoning: bool = True) -> None:
        self.lines: list[bytes] = []
        self.events = Emitter(self.lines.append, run_id="run_1", session_id="ses_1")
        self.tools = CodexTools(self.events)
        messages = CodexMessages(self.events, holds_back=False, shows_reasoning=shows_reasoning)
        self.work = CodexWork(self.events, self.tools, messages, parent)

    def end_item(self, **item: Any) -> None:
        self.work.take("item/completed", {"item": item})

    def written(self, event_type: str) -> list[dict[str, Any]]:
        documents: list[dict[str, Any]] = [json.loads(line) for line in self.lines]
        return [document for document in documents if document["event_type"] == event_type]

    def texts(self, event_type: str) -> list[str]:
        return [block["text"] for event in self.written(event_type) for block in event["content"]]


async def test_the_parts_of_a_summary_are_one_message() -> None:
    thread = Thread()
    for name, params in TWO_PARTS:
        thread.work.take(f"item/reasoning/{name}", {"itemId": "rs_1", **params})
    thread.end_item(type="reasoning", id="rs_1", summary=["**One** first", "**Two** second"], content=[])

    assert thread.texts("message") == ["**One** first\n\n**Two** second"]
    assert "".join(thread.texts("message_delta")) == "**One** first\n\n**Two** second"


async def test_the_thoughts_themselves_are_another_message_than_their_summary() -> None:
    thread = Thread()
    thread.work.take("item/reasoning/textDelta", {"itemId": "rs_1", "contentIndex": 0, "delta": "raw "})
    thread.end_item(type="reasoning", id="rs_1", summary=["In short."], content=["raw ", "thought"])

    assert thread.texts("message") == ["In short.", "raw thought"]
    assert len({event["message_id"] for event in thread.written("message")}) == 2


async def test_encrypted_reasoning_is_in_no_event() -> None:
    thread = Thread()
    raw: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    thread.work.take("rawResponseItem/completed", {"item": raw})
    thread.end_item(type="reasoning", id="rs_1", summary=[], content=[])
    assert thread.lines == []


async def test_reasoning_that_is_not_to_be_shown_is_in_no_event() -> None:
    thread = Thread(shows_reasoning=False)
    for name, params in TWO_PARTS:
        thread.work.take(f"item/reasoning/{name}", {"itemId": "rs_1", **params})
    thread.end_item(type="reasoning", id="rs_1", summary=["**One** first", "**Two** second"], content=["raw"])
    assert thread.lines == []


@pytest.mark.requirement("AOX-095")
async def test_the_work_of_a_sub_agent_is_part_of_the_call_that_is_kept_open_for_it() -> None:
    thread = Thread("call_1")
    thread.tools.start_call({"type": "function_call", "call_id": "call_1", "name": "spawn_agent", "arguments": "{}"})
    thread.tools.hold({"id": "call_1", "kind": "started"}, None)
    thread.tools.finish_call({"type": "function_call_output", "call_id": "call_1", "output": "begun"})
    command = {"type": "commandExecution", "id": "call_2", "command": "true", "cwd": "/", "status": "completed"}
    thread.work.take("item/started", {"item": command})
    thread.end_item(**command)
    thread.work.take("item/agentMessage/delta", {"itemId": "msg_1", "delta": "I am"})
    thread.end_item(type="agentMessage", id="msg_1", text="I am done.")
    thread.end_item(type="reasoning", id="rs_1", summary=["Thought."], content=[])
    assert [event["tool_call_id"] for event in thread.written("tool_finished")] == ["call_2"]
    thread.tools.release("call_1")

    of_parts = [event for event in map(json.loads, thread.lines) if event.get("parent_tool_call_id") == "call_1"]
    kinds = ["tool_started", "message_delta", "message", "message"]
    assert [event["event_type"] for event in of_parts] == kinds
    [_, ended] = thread.written("tool_finished")
    assert (ended["tool_call_id"], ended["status"], ended["tool_output"]) == ("call_1", "completed", "begun")
    assert thread.work.call_count == 1


@pytest.mark.requirement("AOX-095")
async def test_what_a_sub_agent_does_after_its_call_has_ended_is_in_no_event() -> None:
    thread = Thread("call_1")
    thread.tools.hold({"id": "call_1", "kind": "started"}, None)
    thread.tools.release("call_1")
    before = len(thread.lines)
    thread.work.take("item/started", {"item": {"type": "imageView", "id": "call_2", "path": "/a.png"}})
    thread.end_item(type="agentMessage", id="msg_1", text="I am done.")
    assert len(thread.lines) == before


CALL = {"type": "function_call", "call_id": "call_1", "name": "exec_command", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "Process exited with code 0"}
ITEM = {"type": "commandExecution", "id": "call_1", "command": "true", "cwd": "/", "status": "completed"}


@pytest.mark.parametrize(
    "notifications",
    [
        [("rawResponseItem/completed", CALL), ("item/started", ITEM), ("item/completed", ITEM)],
        [("rawResponseItem/completed", CALL), ("item/completed", ITEM), ("rawResponseItem/completed", OUTPUT)],
        [("rawResponseItem/completed", CALL), ("rawResponseItem/completed", OUTPUT), ("item/started", ITEM)],
        [("item/started", ITEM), ("item/completed", ITEM)],
    ],
    ids=["call and item", "an output after the end", "an item after the end", "a resumed thread"],
)
async def test_a_provider_may_give_the_calls_of_each_answer_the_same_id(notifications: list[tuple[str, Any]]) -> None:
    thread = Thread()
    for _ in range(3):
        for method, item in notifications:
            thread.work.take(method, {"item": item})

    started = [event["tool_call_id"] for event in thread.written("tool_started")]
    assert started == ["call_1", "call_1.2", "call_1.3"]
    assert [event["tool_call_id"] for event in thread.written("tool_finished")] == started
    assert thread.work.call_count == 3
