"""What a request of OpenAI's Responses API says: its `input` is a text, or items of which messages are one kind."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ao_model_simulator.prompt import (
    Prompt,
    join_by_role,
    read_object,
    read_objects,
    read_string,
    read_texts,
    text_block,
    tool_definition,
    tool_result_block,
    tool_use_block,
)

TEXT_TYPES: Final = ("input_text", "output_text", "text")
SYSTEM_ROLES: Final = ("system", "developer")


def read_responses_prompt(fields: Mapping[str, Any]) -> Prompt:
    """Return what was asked in this request; what `previous_response_id` stands for is not in it."""
    given = fields.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else read_objects(given)
    instructions = read_texts(fields.get("instructions"))
    system = [text for item in items if _is_system(item) for text in read_texts(item.get("content"), TEXT_TYPES)]
    return Prompt(
        model=read_string(fields.get("model")),
        wants_stream=fields.get("stream") is True,
        system_blocks=[*instructions, *system],
        messages=join_by_role(_read_item(item) for item in items if not _is_system(item)),
        tools=[_read_tool(tool) for tool in read_objects(fields.get("tools"))],
        response_schema=read_object(read_object(fields.get("text")).get("format")).get("schema"),
    )


def _is_system(item: Mapping[str, Any]) -> bool:
    return item.get("role") in SYSTEM_ROLES


def _read_item(item: Mapping[str, Any]) -> tuple[str, Sequence[Mapping[str, Any]]]:
    match item.get("type", "message"):
        case "message":
            return str(item.get("role")), _read_content(item.get("content"))
        case "function_call":
            return "assistant", [tool_use_block(item.get("call_id"), item.get("name"), item.get("arguments"))]
        case "function_call_output":
            output = item.get("output")
            texts = read_texts(output, TEXT_TYPES) or [json.dumps(output)]
            return "user", [tool_result_block(item.get("call_id"), texts)]
        case "reasoning":
            texts = read_texts(item.get("summary"), ("summary_text",))
            return "assistant", [{"type": "thinking", "thinking": text} for text in texts]
        case kind:
            return "user" if str(kind).endswith("_output") else "assistant", [item]


def _read_content(content: object) -> list[Mapping[str, Any]]:
    others = [part for part in read_objects(content) if part.get("type") not in TEXT_TYPES]
    return [*others, *(text_block(text) for text in read_texts(content, TEXT_TYPES))]


def _read_tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    name = tool.get("name") or tool.get("type")
    return tool_definition(name, tool.get("description"), tool.get("parameters"))
