"""A received request, the simulator's verdict on it, and properties for tests."""

import base64
import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from pydantic import JsonValue

from ao_model_simulator.anthropic_messages import AnthropicMessages
from ao_model_simulator.gemini import Gemini
from ao_model_simulator.openai import OpenAIChat, OpenAIResponses
from ao_model_simulator.provider import Prompt, Provider, read_object, read_objects, read_texts

ANTHROPIC: Final = AnthropicMessages()
BY_PREFIX: Final[tuple[tuple[str, Provider], ...]] = (
    ("/v1/chat/", OpenAIChat()),
    ("/v1/responses", OpenAIResponses()),
    ("/v1beta/", Gemini()),
    ("/v1alpha/", Gemini()),
    ("/v1/models/", Gemini()),
    ("/", ANTHROPIC),
)


def nearest_provider(path: str) -> Provider:
    """Return the API whose form a request and its errors have. Every path has one."""
    return next(provider for prefix, provider in BY_PREFIX if path.startswith(prefix) or prefix == "/")


def find_provider(method: str, path: str) -> Provider | None:
    """Return the API whose model is asked for an answer; None if no model is asked."""
    provider = nearest_provider(path)
    return provider if provider.serves(method, path.partition("?")[0]) else None


SECRET_HEADERS: Final = frozenset(
    {"api-key", "authorization", "cookie", "proxy-authorization", "x-api-key", "x-goog-api-key"}
)
DATA_URL: Final = re.compile(r"data:(?P<type>[^;,]+);base64,(?P<data>.*)", re.DOTALL)
SECRET_QUERY: Final = re.compile(r"(?<=[?&]key=)[^&]*")
REDACTED: Final = "[redacted]"


class Verdict(StrEnum):
    """The outcome of a request."""

    ANSWERED = "answered"
    """The script had an answer for the request."""
    MISMATCHED = "mismatched"
    """The request did not match the expectation of the next answer."""
    UNEXPECTED = "unexpected"
    """The script has no answer left, a required field is missing, or no simulated API has such a request."""
    REFUSED = "refused"
    """The service refuses such a request, whatever a model would answer."""
    SIDE = "side"
    """A probe, a list of models or a token count, which is answered without the script."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One HTTP request. `body` is the parsed JSON, the raw text if it is not JSON, or None if it is empty.

    `fields` are as sent. The other properties have the form of the Anthropic Messages API, whatever the API is.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: JsonValue

    @property
    def route(self) -> str:
        """The path without its query."""
        return self.path.partition("?")[0]

    @property
    def fields(self) -> Mapping[str, Any]:
        """The members of the body; empty if the body is not an object."""
        return read_object(self.body)

    @property
    def kind(self) -> str | None:
        """The API whose model was asked for an answer, such as `openai-chat`; None if no model was asked."""
        provider = find_provider(self.method, self.path)
        return None if provider is None else provider.kind

    @property
    def prompt(self) -> Prompt:
        """The prompt of the request. Each member is also a property of the request."""
        return nearest_provider(self.path).read_prompt(self.path, self.fields)

    @property
    def model(self) -> str | None:
        """The name of the requested model; None if the request has none."""
        return self.prompt.model

    @property
    def wants_stream(self) -> bool:
        """Whether the client requests a stream."""
        return self.prompt.wants_stream

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """The conversation so far without the system prompt: `{role, content}`, with the roles `user` and `assistant`.

        The content is a list of blocks of the types `text`, `thinking`, `tool_use` and `tool_result`. Messages of the
        Messages API itself remain as they were sent.
        """
        return self.prompt.messages

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The tools that the model may use: `{name, description?, input_schema?}`."""
        return self.prompt.tools

    @property
    def tool_names(self) -> Sequence[str]:
        """The names of the tools that the model may use."""
        return [str(tool.get("name")) for tool in self.tools]

    @property
    def response_schema(self) -> JsonValue:
        """The JSON Schema for structured output of the API; None if the request has none."""
        return self.prompt.response_schema

    @property
    def system_blocks(self) -> Sequence[str]:
        """The texts of the system prompt, one per block."""
        return self.prompt.system_blocks

    @property
    def system_text(self) -> str:
        """The system prompt, its blocks joined by a blank line."""
        return "\n\n".join(self.system_blocks)

    @property
    def last_user_text(self) -> str:
        """The last text block of the last user message. Earlier blocks may be reminders by the client."""
        texts = read_texts(self._last_user_content())
        return texts[-1] if texts else ""

    @property
    def conversation_text(self) -> str:
        """The texts of all messages of all roles, joined by a line end."""
        return "\n".join(text for message in self.messages for text in read_texts(message.get("content")))

    @property
    def tool_result_text(self) -> str:
        """The outputs of tools in the last user message, joined by a line end."""
        return _tool_results(self._last_user_content())

    @property
    def all_tool_results_text(self) -> str:
        """The outputs of tools in all messages, joined by a line end."""
        said = [_tool_results(message.get("content")) for message in self.messages]
        return "\n".join(text for text in said if text)

    @property
    def schemas_text(self) -> str:
        """The JSON Schemas of the request, for structured output and for each tool, one per line."""
        schemas = [self.response_schema, *(tool.get("input_schema") for tool in self.tools)]
        return "\n".join(json.dumps(schema, ensure_ascii=False) for schema in schemas if schema is not None)

    @property
    def files_text(self) -> str:
        """The files in all messages, one per line: the media type and the SHA-256 digest of the bytes."""
        blocks = [block for message in self.messages for block in read_objects(message.get("content"))]
        return "\n".join(text for block in blocks for text in _files_in(block))

    def _last_user_content(self) -> object:
        for message in reversed(self.messages):
            if message.get("role") == "user":
                return message.get("content")
        return None


def _tool_results(content: object) -> str:
    results = [block.get("content") for block in read_objects(content) if block.get("type") == "tool_result"]
    return "\n".join(text for result in results for text in read_texts(result))


def _files_in(block: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each file in a block: an object with media type and data, or a data URL in any member."""
    for member in (block, *block.values()):
        if isinstance(member, str) and (url := DATA_URL.fullmatch(member)):
            yield _file_line(url["type"], url["data"])
        media_type = read_object(member).get("media_type") or read_object(member).get("mimeType")
        data = read_object(member).get("data")
        if isinstance(media_type, str) and isinstance(data, str):
            yield _file_line(media_type, data, is_text=read_object(member).get("type") == "text")
        elif isinstance(member, dict) and member is not block:
            yield from _files_in(member)


def _file_line(media_type: str, data: str, *, is_text: bool = False) -> str:
    try:
        content = data.encode() if is_text else base64.b64decode(data, validate=True)
    except ValueError:
        return f"{media_type} (no base64)"
    return f"{media_type} {hashlib.sha256(content).hexdigest()}"


@dataclass(frozen=True, slots=True)
class RecordedRequest(ModelRequest):
    """A request and its outcome.

    `number` counts from 1 over all received requests. `answer_index` is the index, in the script, of the answer that
    was given or did not match; None without such an answer. `problems` has one sentence for each problem.
    """

    number: int
    verdict: Verdict
    answer_index: int | None = None
    problems: tuple[str, ...] = ()
    received_at: float = field(default_factory=time.monotonic)
    """The time of receipt in seconds of the monotonic clock. `as_json` does not contain it."""

    def as_json(self) -> dict[str, JsonValue]:
        """Return the request as a JSON object, as in record files and at `/_sim/requests`."""
        return {
            "number": self.number,
            "verdict": self.verdict.value,
            "answer_index": self.answer_index,
            "problems": list(self.problems),
            "kind": self.kind,
            "method": self.method,
            "path": self.path,
            "headers": dict(self.headers),
            "body": self.body,
        }


def redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with lower-case names and without the values of credentials."""
    lowered = {name.lower(): value for name, value in headers.items()}
    return {name: REDACTED if name in SECRET_HEADERS else value for name, value in lowered.items()}


def redact_path(path: str) -> str:
    """Return the path without the value of `key` in its query."""
    return SECRET_QUERY.sub(REDACTED, path)
