"""What a simulated API must be able to do, and the neutral form of requests, answers, errors and stream events.

The neutral form is that of the Anthropic Messages API, so that a script means the same with every API. A provider sees
neither sockets nor the rest of the script.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from pydantic import JsonValue

from ao_model_simulator.script import Answer, ToolUseBlock

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def json_text(document: object) -> str:
    """Return a document as JSON that UTF-8 can hold: of all letters only a lone surrogate is escaped."""
    text = json.dumps(document, ensure_ascii=False)
    return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


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


TYPE_OF_STATUS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
STATUS_OF_TYPE: Final = {type_: status for status, type_ in TYPE_OF_STATUS.items()}


@dataclass(frozen=True, slots=True)
class ModelError:
    """What went wrong. `type` is the script's: a name of the table, or one that an API knows better, or None."""

    status: int
    message: str
    type: str | None = None
    retry_after: str | None = None

    @property
    def own_type(self) -> str | None:
        """The type that goes out as the script wrote it, because the table does not have it."""
        return None if self.type in STATUS_OF_TYPE else self.type

    @property
    def meant_status(self) -> int:
        """The status that the type stands for, or else the status itself: it decides how the error is worded."""
        return STATUS_OF_TYPE.get(self.type or "", self.status)


def error_in_stream(type_: str | None, message: str) -> ModelError:
    """Return an error that comes after the status was sent; without a type the model is overloaded."""
    return ModelError(STATUS_OF_TYPE.get(type_ or "overloaded_error", 500), message, type_ or "overloaded_error")


@dataclass(frozen=True, slots=True)
class Marker:
    """An event that carries no characters of the content. A fault in the content comes before one that closes it."""

    payload: bytes
    closes_content: bool = False


@dataclass(frozen=True, slots=True)
class Delta:
    """An event that carries a piece of the content, and how it is written. One that is not divisible comes whole."""

    piece: str
    encode: Callable[[str], bytes]
    is_divisible: bool = True


StreamEvent = Marker | Delta


def split_text(text: str, chunk_chars: int) -> Iterator[str]:
    """Yield the pieces of a text; none when it is empty."""
    for start in range(0, len(text), chunk_chars):
        yield text[start : start + chunk_chars]


CREATED: Final = 1_735_689_600
"""When every answer says that it was made, in seconds since 1970: the same each time, as all of a script is."""


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer with its identity. `fields` and `path` are those of the request.

    `id` is unique among simulators and carries no prefix: each API puts its own before it.
    """

    id: str
    model: str
    answer: Answer
    path: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)

    def tool_call_id(self, prefix: str, index: int, block: ToolUseBlock) -> str:
        """Return the tool use's own id, or one that is made from the place of the block."""
        return block.id or f"{prefix}_{self.id}_{index}"


class Provider(ABC):
    """One API: it reads requests into the neutral form and words what the script says.

    Most APIs have one `route` and stream server-sent events; an API that does not overrides what follows from that.
    """

    kind: ClassVar[str]
    """The name of the API in `model_endpoint` (SPEC 7)."""
    title: ClassVar[str]
    """What people call it, with its article."""
    required_fields: ClassVar[tuple[str, ...]]
    """The members without which the API refuses a request before it asks any model."""
    request_id_header: ClassVar[str] = "x-request-id"
    """The header of a reply that names the request."""
    route: ClassVar[str] = ""
    broken: ClassVar[bytes] = b""
    """An event whose data is no JSON."""

    def serves(self, method: str, route: str) -> bool:
        """Return whether this asks a model for an answer. `route` is the path without its query."""
        return (method, route) == ("POST", self.route)

    def stream_type(self, given: GivenAnswer) -> str:
        """Return the content type of a stream."""
        return "text/event-stream; charset=utf-8"

    def broken_event(self, given: GivenAnswer, sent: int) -> bytes:
        """Return an event whose data is no JSON, as number `sent` of the stream (the first is 0)."""
        return self.broken

    @abstractmethod
    def read_prompt(self, path: str, fields: Mapping[str, Any]) -> Prompt:
        """Return what was asked. Never raises: the body is whatever the client sent."""

    @abstractmethod
    def body(self, given: GivenAnswer) -> JsonValue:
        """Return the document of an answer that is not streamed."""

    @abstractmethod
    def stream(self, given: GivenAnswer) -> Iterator[StreamEvent]:
        """Yield the events of a whole, sound stream; the same ones each time."""

    @abstractmethod
    def error_event(self, given: GivenAnswer, error: ModelError, sent: int) -> bytes:
        """Return an error as number `sent` of the stream, and its end."""

    @abstractmethod
    def error_body(self, error: ModelError, path: str) -> JsonValue:
        """Return the document of an error that has a status of its own."""
