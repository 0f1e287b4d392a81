"""A request as it was received and what the simulator made of it, with the questions that tests ask."""

import json
import re
import time
from collections.abc import Mapping, Sequence
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
    """Return the API in whose words a request is read and an error is told, whatever the request is."""
    return next(provider for prefix, provider in BY_PREFIX if path.startswith(prefix) or prefix == "/")


def find_provider(method: str, path: str) -> Provider | None:
    """Return the API whose model is asked for an answer, or None when none is."""
    provider = nearest_provider(path)
    return provider if provider.serves(method, path.partition("?")[0]) else None


SECRET_HEADERS: Final = frozenset(
    {"api-key", "authorization", "cookie", "proxy-authorization", "x-api-key", "x-goog-api-key"}
)
SECRET_QUERY: Final = re.compile(r"(?<=[?&]key=)[^&]*")
REDACTED: Final = "[redacted]"


class Verdict(StrEnum):
    """What became of a request."""

    ANSWERED = "answered"
    """The script had an answer for it."""
    MISMATCHED = "mismatched"
    """The script had an answer, and the request did not hold what that answer expects."""
    UNEXPECTED = "unexpected"
    """The script is used up, or no simulated API knows such a request."""
    SIDE = "side"
    """A probe, a list of models or a token count: answered without the script."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One HTTP request. `body` is the parsed JSON, or the raw text where it is not JSON, or None.

    What was asked is told in one form whatever the API, that of the Anthropic Messages API; `fields` are as sent.
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
        """The body's members; empty when the body is not an object."""
        return read_object(self.body)

    @property
    def kind(self) -> str | None:
        """The API whose model was asked for an answer, such as `openai-chat`; None when none was."""
        provider = find_provider(self.method, self.path)
        return None if provider is None else provider.kind

    @property
    def prompt(self) -> Prompt:
        """What was asked, all at once; each member is also one of the request."""
        return nearest_provider(self.path).read_prompt(self.path, self.fields)

    @property
    def model(self) -> str | None:
        """The model that was asked."""
        return self.prompt.model

    @property
    def wants_stream(self) -> bool:
        """Whether the answer is to be streamed."""
        return self.prompt.wants_stream

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """The conversation so far without the system prompt: `{role, content}`, roles `user` and `assistant`.

        The content is a list of blocks of the types `text`, `thinking`, `tool_use` and `tool_result`. What was asked in
        the words of the Messages API stays as it was sent.
        """
        return self.prompt.messages

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The tools that the model may use: `{name, description?, input_schema?}`."""
        return self.prompt.tools

    @property
    def tool_names(self) -> Sequence[str]:
        """The names of those tools."""
        return [str(tool.get("name")) for tool in self.tools]

    @property
    def response_schema(self) -> JsonValue:
        """The JSON Schema that the API itself was told to hold the answer to; None when there is none."""
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
        """The last text block of the last user message: earlier blocks may be reminders by the client."""
        texts = read_texts(self._last_user_content())
        return texts[-1] if texts else ""

    @property
    def conversation_text(self) -> str:
        """The texts of all messages, whoever wrote them, a line end between two."""
        return "\n".join(text for message in self.messages for text in read_texts(message.get("content")))

    @property
    def tool_result_text(self) -> str:
        """What the tools said, from the last user message."""
        return _tool_results(self._last_user_content())

    @property
    def all_tool_results_text(self) -> str:
        """What the tools said, from all messages, a line end between two."""
        said = [_tool_results(message.get("content")) for message in self.messages]
        return "\n".join(text for text in said if text)

    @property
    def schemas_text(self) -> str:
        """The JSON Schemas that the API was given, for structured output and for each tool, one a line."""
        schemas = [self.response_schema, *(tool.get("input_schema") for tool in self.tools)]
        return "\n".join(json.dumps(schema, ensure_ascii=False) for schema in schemas if schema is not None)

    def _last_user_content(self) -> object:
        for message in reversed(self.messages):
            if message.get("role") == "user":
                return message.get("content")
        return None


def _tool_results(content: object) -> str:
    results = [block.get("content") for block in read_objects(content) if block.get("type") == "tool_result"]
    return "\n".join(text for result in results for text in read_texts(result))


@dataclass(frozen=True, slots=True)
class RecordedRequest(ModelRequest):
    """A request and its fate. `number` counts from 1 over everything that was received."""

    number: int
    verdict: Verdict
    answer_index: int | None = None
    problems: tuple[str, ...] = ()
    received_at: float = field(default_factory=time.monotonic)
    """By the monotonic clock; not part of what is written."""

    def as_json(self) -> dict[str, JsonValue]:
        """Return the form that is written to record files and served at `/_sim/requests`."""
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
    """Return the headers with lower-case names and without the values that are credentials."""
    lowered = {name.lower(): value for name, value in headers.items()}
    return {name: REDACTED if name in SECRET_HEADERS else value for name, value in lowered.items()}


def redact_path(path: str) -> str:
    """Return the path without the key that its query may hold."""
    return SECRET_QUERY.sub(REDACTED, path)
