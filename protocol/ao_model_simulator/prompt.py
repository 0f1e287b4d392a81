"""What a model was asked, in one form whatever the API: that of the Anthropic Messages API.

Requests of other APIs are translated into it, so that a script's expectations mean the same everywhere.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request to a model. A member that the request lacks, or that has a wrong type, is empty here."""

    model: str | None = None
    wants_stream: bool = False
    system_blocks: Sequence[str] = ()
    messages: Sequence[Mapping[str, Any]] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    response_schema: JsonValue = None


def read_objects(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list, or nothing."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def read_object(value: object) -> Mapping[str, Any]:
    """Return the object, or an empty one."""
    return value if isinstance(value, dict) else {}


def read_string(value: object) -> str | None:
    """Return the string, or None."""
    return value if isinstance(value, str) else None


def read_texts(content: object, types: Sequence[str] = ("text",)) -> list[str]:
    """Return the texts of a content, which is a string or a list of blocks of these types."""
    if isinstance(content, str):
        return [content]
    blocks = [block for block in read_objects(content) if block.get("type") in types]
    return [text for block in blocks if isinstance(text := block.get("text"), str)]


def text_block(text: str) -> dict[str, Any]:
    """Return a text as a content block."""
    return {"type": "text", "text": text}


def tool_use_block(call_id: object, name: object, arguments: object) -> dict[str, Any]:
    """Return a tool call as a content block. Arguments that came as JSON text are parsed where that is possible."""
    if isinstance(arguments, str):
        with suppress(ValueError):
            arguments = json.loads(arguments)
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def tool_result_block(call_id: object, texts: Iterable[str]) -> dict[str, Any]:
    """Return what a tool said as a content block."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": [text_block(text) for text in texts]}


def tool_definition(name: object, description: object, input_schema: object) -> dict[str, Any]:
    """Return a tool on offer; what the request does not say about it is left out."""
    known = {"name": name, "description": description, "input_schema": input_schema}
    return {key: value for key, value in known.items() if value is not None}


def join_by_role(pieces: Iterable[tuple[str, Sequence[Mapping[str, Any]]]]) -> list[Mapping[str, Any]]:
    """Return the messages of a conversation that came in pieces of one role and some blocks each.

    Neighbours of one role become one message: what tools said and the user's words after it belong together, and so
    do a model's words and its tool calls.
    """
    messages: list[tuple[str, list[Mapping[str, Any]]]] = []
    for role, blocks in pieces:
        if messages and messages[-1][0] == role:
            messages[-1][1].extend(blocks)
        else:
            messages.append((role, list(blocks)))
    return [{"role": role, "content": blocks} for role, blocks in messages]
