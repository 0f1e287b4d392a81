"""What goes out over HTTP for an answer, faults included: a status, headers and steps to perform.

Pure: nothing here sends or waits. The server performs the steps.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import JsonValue

from ao_conformance.model_sim.messages import (
    ERROR_TYPES,
    Delta,
    Marker,
    Message,
    StreamEvent,
    count_content_chars,
    encode_event,
    error_json,
    stream_events,
)
from ao_conformance.model_sim.script import Answer, ApiError

BROKEN_EVENT: Final = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"del\n\n'
JSON_HEADERS: Final = {"content-type": "application/json"}
STREAM_HEADERS: Final = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


@dataclass(frozen=True, slots=True)
class Send:
    """Send these bytes of the body."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    """Send nothing for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Stall:
    """Send nothing more, and keep the connection until the client leaves or the simulator stops."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Close the connection although the body is not complete."""


Step = Send | Pause | Stall | Cut


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole HTTP answer. `length` is None where the body is sent in chunks as it comes."""

    status: int
    headers: Mapping[str, str]
    steps: Iterable[Step]
    length: int | None
    delay_seconds: float = field(default=0)


def json_reply(document: JsonValue, *, status: int = 200) -> Reply:
    """Return a plain JSON reply."""
    body = json.dumps(document).encode()
    return Reply(status, JSON_HEADERS, (Send(body),), len(body))


def error_reply(status: int, message: str, *, type_: str | None = None) -> Reply:
    """Return an error as the Messages API words it."""
    return json_reply(error_json(status, type_, message), status=status)


def answer_reply(message: Message, *, stream: bool) -> Reply:
    """Return the reply that the script asks for, in the form that the client asked for."""
    answer = message.answer
    if answer.status is not None:
        error = answer.error or ApiError()
        reply = error_reply(answer.status, error.message, type_=error.type)
    elif stream:
        reply = Reply(200, STREAM_HEADERS, _stream_steps(message), None)
    else:
        reply = _body_reply(message)
    scripted = {name.lower(): value for name, value in answer.headers.items()}
    headers = {"request-id": message.id.replace("msg_", "req_"), **reply.headers, **scripted}
    return replace(reply, headers=headers, delay_seconds=answer.delay_seconds)


def _stream_steps(message: Message) -> Iterator[Step]:
    answer = message.answer
    if answer.stall:
        yield Stall()
        return
    end = _find_end(answer, count_content_chars(answer))
    events = stream_events(message)
    for event in events if end is None else _events_before_end(events, end.after_chars):
        yield Send(encode_event(event))
        if answer.chunk_delay_seconds and isinstance(event, Delta):
            yield Pause(answer.chunk_delay_seconds)
    if end is not None:
        yield from end.steps


def _events_before_end(events: Iterator[StreamEvent], chars_left: int) -> Iterator[StreamEvent]:
    """Yield the events up to that much content; the end always lies inside a content block."""
    for event in events:
        if isinstance(event, Delta):
            if len(event.piece) > chars_left:
                if chars_left:
                    yield replace(event, piece=event.piece[:chars_left])
                return
            chars_left -= len(event.piece)
        elif event.data["type"] == "content_block_stop" and chars_left == 0:
            return
        yield event


@dataclass(frozen=True, slots=True)
class _EarlyEnd:
    after_chars: int
    steps: tuple[Step, ...]


def _find_end(answer: Answer, total: int) -> _EarlyEnd | None:
    """Return where and how the content ends before its time, if the script says so."""
    if answer.cut_after_chars is not None:
        return _EarlyEnd(min(total, answer.cut_after_chars), (Cut(),))
    if answer.stall_after_chars is not None:
        return _EarlyEnd(min(total, answer.stall_after_chars), (Stall(),))
    if answer.cut:
        return _EarlyEnd(total // 2, (Cut(),))
    if answer.malformed:
        return _EarlyEnd(total // 2, (Send(BROKEN_EVENT),))
    if answer.stream_error is not None:
        error = _error_in_stream(answer.stream_error)
        return _EarlyEnd(total, (Send(encode_event(Marker(error))),))
    return None


def _error_in_stream(error: ApiError) -> dict[str, JsonValue]:
    return error_json(529, error.type, error.message)


def _body_reply(message: Message) -> Reply:
    answer = message.answer
    if answer.stream_error is not None:
        type_ = answer.stream_error.type or ERROR_TYPES[529]
        status = next((code for code, name in ERROR_TYPES.items() if name == type_), 500)
        return error_reply(status, answer.stream_error.message, type_=type_)
    body = json.dumps(message.as_json()).encode()
    if answer.stall:
        return Reply(200, JSON_HEADERS, (Stall(),), len(body))
    if answer.malformed:
        half = body[: len(body) // 2]
        return Reply(200, JSON_HEADERS, (Send(half),), len(half))
    end = _find_end(answer, len(body))
    if end is None:
        return Reply(200, JSON_HEADERS, (Send(body),), len(body))
    return Reply(200, JSON_HEADERS, (Send(body[: end.after_chars]), *end.steps), len(body))
