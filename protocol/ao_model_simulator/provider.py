"""The interface of a simulated API, and the neutral form of requests, answers, errors and stream events.

The neutral form is that of the Anthropic Messages API, so a script has the same meaning with every API. A provider has
access neither to sockets nor to the rest of the script.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from pydantic import JsonValue

from ao_model_simulator.script import Answer, ApiError, ToolUseBlock

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def json_text(document: object) -> str:
    """Return a document as JSON that UTF-8 can encode: of all non-ASCII characters only lone surrogates are escaped."""
    text = json.dumps(document, ensure_ascii=False)
    return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request to a model. A member that the request lacks, or that has a wrong type, is empty."""

    model: str | None = None
    wants_stream: bool = False
    system_blocks: Sequence[str] = ()
    messages: Sequence[Mapping[str, Any]] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    response_schema: JsonValue = None


def read_objects(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list; empty for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def read_object(value: object) -> Mapping[str, Any]:
    """Return the value if it is an object, otherwise an empty object."""
    return value if isinstance(value, dict) else {}


def read_string(value: object) -> str | None:
    """Return the value if it is a string, otherwise None."""
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
    """Return a tool call as a content block. Arguments that are JSON text are parsed."""
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def tool_result_block(call_id: object, texts: Iterable[str]) -> dict[str, Any]:
    """Return the output of a tool as a content block."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": [text_block(text) for text in texts]}


def tool_definition(name: object, description: object, input_schema: object) -> dict[str, Any]:
    """Return the definition of a tool, without members that the request lacks."""
    known = {"name": name, "description": description, "input_schema": input_schema}
    return {key: value for key, value in known.items() if value is not None}


def join_by_role(pieces: Iterable[tuple[str, Sequence[Mapping[str, Any]]]]) -> list[Mapping[str, Any]]:
    """Return the messages of a conversation from its pieces, each with a role and blocks.

    Adjacent pieces of one role become one message: outputs of tools and the user's text after them belong together, and
    so do a model's text and its tool calls.
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
    """An error of an API.

    `type` is that of the script: a name of the table, another name that an API knows, or None.
    """

    status: int
    message: str
    type: str | None = None
    retry_after: str | None = None
    code: str | None = None
    param: str | None = None
    """The members `code` and `param` of an error of OpenAI."""

    @property
    def own_type(self) -> str | None:
        """The script's type if the table does not have it, so that it is sent unchanged; otherwise None."""
        return None if self.type in STATUS_OF_TYPE else self.type

    @property
    def meant_status(self) -> int:
        """The status of the type in the table, otherwise the status itself. It decides the wording."""
        return STATUS_OF_TYPE.get(self.type or "", self.status)


@dataclass(frozen=True, slots=True)
class Marker:
    """An event without characters of the content. A fault in the content comes before an event that closes it."""

    payload: bytes
    closes_content: bool = False


@dataclass(frozen=True, slots=True)
class Delta:
    """An event with a piece of the content, and its encoder. A piece that is not divisible is sent whole."""

    piece: str
    encode: Callable[[str], bytes]
    is_divisible: bool = True


StreamEvent = Marker | Delta


def split_text(text: str, chunk_chars: int) -> Iterator[str]:
    """Yield the pieces of a text. An empty text has no pieces."""
    for start in range(0, len(text), chunk_chars):
        yield text[start : start + chunk_chars]


CREATED: Final = 1_735_689_600
"""The creation time of every answer, in seconds since 1970. It is constant, so that answers are reproducible."""


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer with its identity. `fields` and `path` are those of the request.

    `id` is unique among simulators and has no prefix: each API adds its own.
    """

    id: str
    model: str
    answer: Answer
    path: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)

    def tool_call_id(self, prefix: str, index: int, block: ToolUseBlock) -> str:
        """Return the id of the tool use, or one from the index of its block."""
        return block.id or f"{prefix}_{self.id}_{index}"


class Provider(ABC):
    """An API: it reads requests into the neutral form and encodes answers of the script.

    Most APIs have one `route` and stream server-sent events. Any other API overrides the methods that depend on that.
    """

    kind: ClassVar[str]
    """The name of the API in `model_endpoint` (SPEC 7)."""
    title: ClassVar[str]
    """The name for people, with its article."""
    required_fields: ClassVar[tuple[str, ...]]
    """The members without which the API refuses a request before it asks a model."""
    request_id_header: ClassVar[str] = "x-request-id"
    """The header of a reply with the id of the request."""
    route: ClassVar[str] = ""
    words_of_status: ClassVar[Mapping[int, str]]
    """What the service tells with an error, by status (docs/model-simulator.md)."""
    broken: ClassVar[bytes] = b""
    """An event whose data is not JSON."""

    def serves(self, method: str, route: str) -> bool:
        """Return whether a request asks a model for an answer. `route` is the path without its query."""
        return (method, route) == ("POST", self.route)

    def scripted_error(
        self, given: GivenAnswer, status: int, told: ApiError, retry_after: str | None = None
    ) -> ModelError:
        """Return an error of the script, in the words of the service where the script has none."""
        words = self.words_of_status.get(STATUS_OF_TYPE.get(told.type or "", status), "status {status}")
        message = told.message or words.format(model=given.model, status=status)
        return ModelError(status, message, told.type, retry_after)

    def error_in_stream(self, given: GivenAnswer, told: ApiError) -> ModelError:
        """Return an error that occurs after the status was sent. Without a type it is `overloaded_error`."""
        type_ = told.type or "overloaded_error"
        return self.scripted_error(given, STATUS_OF_TYPE.get(type_, 500), ApiError(type=type_, message=told.message))

    def stream_type(self, given: GivenAnswer) -> str:
        """Return the content type of a stream."""
        return "text/event-stream; charset=utf-8"

    def broken_event(self, given: GivenAnswer, sent: int) -> bytes:
        """Return an event whose data is not JSON, as event `sent` of the stream (the first is 0)."""
        return self.broken

    @abstractmethod
    def read_prompt(self, path: str, fields: Mapping[str, Any]) -> Prompt:
        """Return the prompt of a request. This never raises, for any body."""

    def refusals(self, path: str, fields: Mapping[str, Any]) -> Iterator[ModelError]:
        """Yield what the service tells about a request that it refuses before it asks a model; the first one counts."""
        return iter(())

    @abstractmethod
    def body(self, given: GivenAnswer) -> JsonValue:
        """Return the document of an answer that is not streamed."""

    @abstractmethod
    def stream(self, given: GivenAnswer) -> Iterator[StreamEvent]:
        """Yield the events of a complete stream without faults; each call yields the same events."""

    @abstractmethod
    def error_event(self, given: GivenAnswer, error: ModelError, sent: int) -> bytes:
        """Return an error as event `sent` of the stream, and the end of the stream."""

    @abstractmethod
    def error_body(self, error: ModelError, path: str) -> JsonValue:
        """Return the document of an error that has a status of its own."""
