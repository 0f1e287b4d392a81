"""The HTTP reply to a request: a status, headers and steps to perform.

Replies are answers of the script with their faults, errors, and the documents of other requests: probes, lists of
models, token counts. This module neither sends nor waits; the server performs the steps.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import JsonValue

from ao_model_simulator.endpoints import ENDPOINTS
from ao_model_simulator.model_request import ModelRequest
from ao_model_simulator.provider import (
    CREATED,
    Delta,
    GivenAnswer,
    ModelError,
    Provider,
    StreamEvent,
    json_text,
)
from ao_model_simulator.script import Answer, ApiError

CHARS_PER_TOKEN: Final = 4
MODELS: Final = re.compile(r"/v1(?:beta|alpha)?/models(?:/(?P<model>[^/:]+))?")
GEMINI_COUNT: Final = re.compile(r"/v1(?:beta|alpha)?/models/[^/:]+:countTokens")


def side_document(request: ModelRequest, model: str) -> JsonValue:
    """Return the document for a request that needs no model; None for any other request.

    Every model that a request names exists. Lists contain `model` alone.
    """
    if request.method in {"GET", "HEAD"}:
        # The claude command line checks with `/api/hello` whether the API can be reached.
        if request.route in {"/", "/api/hello"}:
            return {"name": "model-sim", "apis": [*ENDPOINTS]}
        if (found := MODELS.fullmatch(request.route)) is None:
            return None
        if found["model"] is not None:
            return _model_entry(found["model"])
        entries: JsonValue = [_model_entry(model)]
        listing: dict[str, JsonValue] = {"has_more": False, "first_id": model, "last_id": model}
        return {"object": "list", "data": entries, "models": entries, **listing}
    return _token_count(request) if request.method == "POST" else None


def _token_count(request: ModelRequest) -> JsonValue:
    tokens = len(str(request.body)) // CHARS_PER_TOKEN
    match request.route:
        case "/v1/messages/count_tokens":
            return {"input_tokens": tokens}
        case "/v1/responses/input_tokens":
            return {"object": "response.input_tokens", "input_tokens": tokens}
        case route if GEMINI_COUNT.fullmatch(route):
            return {"totalTokens": tokens}
        case _:
            return None


def _model_entry(model: str) -> dict[str, JsonValue]:
    """Return a model with the members of all APIs: they share the path, and each client reads its own members."""
    anthropic: dict[str, JsonValue] = {
        "id": model,
        "type": "model",
        "display_name": model,
        "created_at": "2025-01-01T00:00:00Z",
    }
    openai: dict[str, JsonValue] = {"object": "model", "created": CREATED, "owned_by": "model-sim"}
    gemini: dict[str, JsonValue] = {
        "name": f"models/{model}",
        "version": "001",
        "displayName": model,
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }
    return {**anthropic, **openai, **gemini}


JSON_HEADERS: Final = {"content-type": "application/json"}
SECONDS: Final = re.compile(r"\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Send:
    """A step: send bytes of the body."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    """A step: send nothing for some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Stall:
    """A step: send nothing more, and keep the connection until the client leaves or the simulator stops."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A step: close the connection although the body is not complete."""


Step = Send | Pause | Stall | Cut


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete HTTP reply. `length` is None if the body is sent in chunks."""

    status: int
    headers: Mapping[str, str]
    steps: Iterable[Step]
    length: int | None
    delay_seconds: float = field(default=0)


def json_reply(document: JsonValue, *, status: int = 200) -> Reply:
    """Return a plain JSON reply."""
    body = json_text(document).encode()
    return Reply(status, JSON_HEADERS, (Send(body),), len(body))


def error_reply(provider: Provider, error: ModelError, path: str) -> Reply:
    """Return an error in the form of the API. `path` is that of the request."""
    return json_reply(provider.error_body(error, path), status=error.status)


def answer_reply(provider: Provider, given: GivenAnswer, *, stream: bool) -> Reply:
    """Return the reply of the script, in the form that the client requested."""
    answer = given.answer
    scripted = {name.lower(): value for name, value in answer.headers.items()}
    if answer.status is not None:
        # Documents have seconds only, but the header may also be a date.
        retry_after = scripted.get("retry-after") if SECONDS.fullmatch(scripted.get("retry-after", "")) else None
        error = provider.scripted_error(given, answer.status, answer.error or ApiError(), retry_after)
        reply = error_reply(provider, error, given.path)
    elif stream:
        stream_headers = {"content-type": provider.stream_type(given), "cache-control": "no-cache"}
        reply = Reply(200, stream_headers, _stream_steps(provider, given), None)
    else:
        reply = _body_reply(provider, given)
    headers = {provider.request_id_header: f"req_{given.id}", **reply.headers, **scripted}
    return replace(reply, headers=headers, delay_seconds=answer.delay_seconds)


def _stream_steps(provider: Provider, given: GivenAnswer) -> Iterator[Step]:
    answer = given.answer
    if answer.stall:
        yield Stall()
        return
    events = provider.stream(given)
    if _is_interrupted(answer):
        chars = sum(len(event.piece) for event in provider.stream(given) if isinstance(event, Delta))
        events = _events_before_end(events, _find_end(answer, chars))
    sent = 0
    for event in events:
        yield Send(event.encode(event.piece) if isinstance(event, Delta) else event.payload)
        sent += 1
        if answer.chunk_delay_seconds and isinstance(event, Delta):
            yield Pause(answer.chunk_delay_seconds)
    if answer.malformed:
        yield Send(provider.broken_event(given, sent))
    elif answer.stream_error is not None:
        error = provider.error_in_stream(given, answer.stream_error)
        yield Send(provider.error_event(given, error, sent))
    elif _is_interrupted(answer):
        yield Cut() if answer.stall_after_chars is None else Stall()


def _events_before_end(events: Iterator[StreamEvent], chars_left: int) -> Iterator[StreamEvent]:
    """Yield the events with the first `chars_left` characters. The end is always inside the content."""
    for event in events:
        if isinstance(event, Delta):
            if len(event.piece) > chars_left:
                if chars_left and event.is_divisible:
                    yield replace(event, piece=event.piece[:chars_left])
                return
            chars_left -= len(event.piece)
        elif event.closes_content and chars_left == 0:
            return
        yield event


def _is_interrupted(answer: Answer) -> bool:
    faults = (answer.cut, answer.malformed, answer.stream_error)
    return any(faults) or answer.cut_after_chars is not None or answer.stall_after_chars is not None


def _find_end(answer: Answer, total: int) -> int:
    """Return the length at which an interrupted answer ends, in the unit of `total`: characters or bytes."""
    scripted = answer.stall_after_chars if answer.cut_after_chars is None else answer.cut_after_chars
    if scripted is not None:
        return min(total, scripted)
    return total if answer.stream_error is not None else total // 2


def _body_reply(provider: Provider, given: GivenAnswer) -> Reply:
    answer = given.answer
    if answer.stream_error is not None:
        error = provider.error_in_stream(given, answer.stream_error)
        return error_reply(provider, error, given.path)
    body = json_text(provider.body(given)).encode()
    if answer.stall:
        return Reply(200, JSON_HEADERS, (Stall(),), len(body))
    if not _is_interrupted(answer):
        return Reply(200, JSON_HEADERS, (Send(body),), len(body))
    end_after = _find_end(answer, len(body))
    if answer.malformed:
        return Reply(200, JSON_HEADERS, (Send(body[:end_after]),), end_after)
    interruption = Cut() if answer.stall_after_chars is None else Stall()
    return Reply(200, JSON_HEADERS, (Send(body[:end_after]), interruption), len(body))
