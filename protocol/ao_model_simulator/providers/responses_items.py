"""What the model says in OpenAI's Responses API: one output item per content block."""

import json
from dataclasses import dataclass, field
from typing import assert_never

from pydantic import JsonValue

from ao_model_simulator.given_answer import GivenAnswer
from ao_model_simulator.script import ContentBlock, TextBlock, ThinkingBlock, ToolUseBlock

JsonObject = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class OutputItem:
    """An item of the output, whole, and how its text is streamed.

    `text_event` is the name of the text's events, `text_field` the member of the last of them that holds it all, and
    `position` the place of the text in the item. `part` is what holds the text, with the name of its events; None
    where the item holds it itself. `silent` is the item before it says anything, `extra` what the text's events hold.
    """

    document: JsonObject
    silent: JsonObject
    text: str
    text_event: str
    text_field: str = "text"
    position: JsonObject = field(default_factory=dict)
    extra: JsonObject = field(default_factory=dict)
    part: tuple[str, JsonObject] | None = None


def output_items(given: GivenAnswer, *, is_complete: bool) -> list[OutputItem]:
    """Return the items of the answer; when it is not complete, its last item is not either."""
    blocks = given.answer.blocks
    last = len(blocks) - 1
    return [
        _output_item(given, index, block, "completed" if is_complete or index < last else "incomplete")
        for index, block in enumerate(blocks)
    ]


def _output_item(given: GivenAnswer, index: int, block: ContentBlock, status: str) -> OutputItem:
    place = f"{given.id}_{index}"
    part: JsonObject
    match block:
        case TextBlock(text=text):
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            document: JsonObject = {"id": f"msg_{place}", "type": "message", "status": status, "role": "assistant"}
            return OutputItem(
                document | {"content": [part]},
                document | {"content": [], "status": "in_progress"},
                text,
                "response.output_text",
                position={"content_index": 0},
                extra={"logprobs": []},
                part=("response.content_part", part),
            )
        case ThinkingBlock(thinking=text):
            part = {"type": "summary_text", "text": text}
            document = {"id": f"rs_{place}", "type": "reasoning"}
            return OutputItem(
                document | {"summary": [part]},
                document | {"summary": []},
                text,
                "response.reasoning_summary_text",
                position={"summary_index": 0},
                part=("response.reasoning_summary_part", part),
            )
        case ToolUseBlock():
            text = json.dumps(block.input)
            call_id = given.tool_call_id("call", index, block)
            document = {"id": f"fc_{place}", "type": "function_call", "call_id": call_id, "name": block.name}
            return OutputItem(
                document | {"arguments": text, "status": status},
                document | {"arguments": "", "status": "in_progress"},
                text,
                "response.function_call_arguments",
                text_field="arguments",
            )
        case _:
            assert_never(block)
