"""A request as it was received and what the simulator made of it, with the questions that tests ask."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pydantic import JsonValue

SECRET_HEADERS: Final = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})
REDACTED: Final = "[redacted]"


class Verdict(StrEnum):
    """What became of a request."""

    ANSWERED = "answered"
    """The script had an answer for it."""
    MISMATCHED = "mismatched"
    """The script had an answer, and the request did not hold what that answer expects."""
    UNEXPECTED = "unexpected"
    """The script is used up, or the Messages API knows no such request."""
    SIDE = "side"
    """A probe or a token count: answered without the script."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One HTTP request. `body` is the parsed JSON, or the raw text where it is not JSON, or None."""

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
        return self.body if isinstance(self.body, dict) else {}

    @property
    def model(self) -> str | None:
        """The model that was asked."""
        model = self.fields.get("model")
        return model if isinstance(model, str) else None

    @property
    def wants_stream(self) -> bool:
        """Whether the answer is to be streamed."""
        return self.fields.get("stream") is True

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """The conversation so far, as sent."""
        return _objects(self.fields.get("messages"))

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The tools that the model may use, as sent."""
        return _objects(self.fields.get("tools"))

    @property
    def tool_names(self) -> Sequence[str]:
        """The names of those tools."""
        return [str(tool.get("name")) for tool in self.tools]

    @property
    def system_blocks(self) -> Sequence[str]:
        """The texts of the system prompt, one per block."""
        return _texts(self.fields.get("system"))

    @property
    def system_text(self) -> str:
        """The system prompt, its blocks joined by a blank line."""
        return "\n\n".join(self.system_blocks)

    @property
    def last_user_text(self) -> str:
        """The last text block of the last user message: earlier blocks may be reminders by the client."""
        texts = _texts(self._last_user_content())
        return texts[-1] if texts else ""

    @property
    def tool_result_text(self) -> str:
        """What the tools said, from the last user message."""
        blocks = _objects(self._last_user_content())
        results = [block.get("content") for block in blocks if block.get("type") == "tool_result"]
        return "\n".join(text for content in results for text in _texts(content))

    def _last_user_content(self) -> object:
        for message in reversed(self.messages):
            if message.get("role") == "user":
                return message.get("content")
        return None


@dataclass(frozen=True, slots=True)
class RecordedRequest(ModelRequest):
    """A request and its fate. `number` counts from 1 over everything that was received."""

    number: int
    verdict: Verdict
    answer_index: int | None = None
    problems: tuple[str, ...] = ()

    def as_json(self) -> dict[str, JsonValue]:
        """Return the form that is written to record files and served at `/_sim/requests`."""
        return {
            "number": self.number,
            "verdict": self.verdict.value,
            "answer_index": self.answer_index,
            "problems": list(self.problems),
            "method": self.method,
            "path": self.path,
            "headers": dict(self.headers),
            "body": self.body,
        }


def redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with lower-case names and without the values that are credentials."""
    lowered = {name.lower(): value for name, value in headers.items()}
    return {name: REDACTED if name in SECRET_HEADERS else value for name, value in lowered.items()}


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _texts(content: object) -> list[str]:
    """Content is a string or a list of blocks, everywhere in the Messages API."""
    if isinstance(content, str):
        return [content]
    blocks = [block for block in _objects(content) if block.get("type") == "text"]
    return [text for block in blocks if isinstance(text := block.get("text"), str)]
