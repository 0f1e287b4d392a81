"""What is written of a message that breaks off while the model streams it: the CLI asks again, under another id."""

import json
from typing import Any

import pytest

from ao_executors.claude_code.claude_turn import ClaudeMessages
from ao_executors.claude_code.sdk import AssistantMessage, TextBlock
from ao_executors.core import Emitter


def start_of(message_id: str) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": message_id}}


def piece(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


@pytest.mark.requirement("AOX-079", "AOX-083")
@pytest.mark.parametrize("streams_again", [True, False], ids=["streamed again", "not streamed again"])
async def test_a_message_that_broke_off_is_closed_before_the_next_one(streams_again: bool) -> None:
    lines: list[bytes] = []
    transcript = ClaudeMessages(Emitter(lines.append, run_id="run_1", session_id="ses_1"), holds_back=False)
    transcript.begin_turn()
    for event in (start_of("msg_1"), piece("One "), piece("tw")):
        transcript.stream(event)
    for event in (start_of("msg_2"), piece("Done.")) if streams_again else ():
        transcript.stream(event)
    transcript.add(AssistantMessage([TextBlock("Done.")], model="m", message_id="msg_2"))

    answer = transcript.answer("end_turn")

    said = [(event["event_type"], event["message_id"], event["content"][0]["text"]) for event in map(json.loads, lines)]
    again = [("message_delta", "msg_2", "Done.")] if streams_again else []
    assert said == [
        ("message_delta", "msg_1", "One "),
        ("message_delta", "msg_1", "tw"),
        ("message", "msg_1", "One tw"),
        *again,
        ("message", "msg_2", "Done."),
    ]
    assert (answer.text, answer.is_said) == ("Done.", True)
