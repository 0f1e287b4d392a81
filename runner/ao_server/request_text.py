"""What a request says, read by the rules of the protocol: the segments of its path, its query, and its JSON body."""

import asyncio
from collections.abc import Iterable
from functools import partial
from http import HTTPStatus
from typing import Annotated, Final

from pydantic import AfterValidator
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from ao_protocol.framing import MAX_DEPTH
from ao_protocol.written import MAX_PATH_CHARACTERS, NotInteroperable, check_name, decode_text, parse_json
from ao_runner.connections import Application, Message, Receive, Send
from ao_server.gate import SAFE, with_whole_segments
from ao_server.problem_documents import problem_response
from ao_server.problems import Told

MAX_VALUES: Final = 250_000
"""In one body of JSON: nobody is answered while it is parsed, 0.2 s for so many. Events are texts in it."""
QUICK_BYTES: Final = 64 * 1024
"""A longer body is parsed in a thread, so that other requests are answered meanwhile."""

_PIECE_BYTES: Final = 64 * 1024

Segment = AfterValidator(lambda text: text.replace("%2F", "/").replace("%25", "%"))
"""For a parameter in a path: it becomes what the client has encoded."""
Name = Annotated[str, AfterValidator(check_name)]
"""For the name of a new thing in a body."""
LongName = Annotated[str, AfterValidator(partial(check_name, most=MAX_PATH_CHARACTERS))]
"""For a folder, a host or a profile, which may be a path, in a body."""

WITHOUT_EFFECT: Final = {"/agents/{name}": {"raw"}, "/sse/sessions": {"api_key", "created_by"}}
"""Query parameters of the older contract that its clients send, by path."""


async def refuse_unknown_parameters(request: Request) -> None:
    """Refuse a call of the API with a query parameter that it does not take, such as a filter with a typing error.

    Raises:
        HTTPException: There is one.
    """
    if not request.query_params:
        return
    path, app = request.scope["route"].path_format, request.app
    document = app.openapi_schema or await asyncio.to_thread(app.openapi)
    operation = document["paths"].get(path, {}).get(request.method.lower())
    if operation is None:
        return
    known = {one["name"] for one in operation.get("parameters", []) if one["in"] == "query"}
    if unknown := sorted(request.query_params.keys() - known - WITHOUT_EFFECT.get(path, set())):
        named = ", ".join(repr(name[:100]) for name in unknown[:10])
        takes = ", ".join(sorted(known)) or "no parameter"
        message = f"unknown query parameter {named}; {request.method} {path} takes {takes}"
        raise Told(HTTPStatus.BAD_REQUEST, "unknown_parameter", message)


class StrictBodies:
    """The ASGI middleware that refuses a JSON body which is not I-JSON (RFC 7493), too deep, or of too many values.

    The libraries behind it accept NaN, duplicate keys and halves of surrogate pairs.
    """

    def __init__(self, inside: Application) -> None:
        self._inside = inside

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope = with_whole_segments(scope)
        if scope["type"] == "http" and scope["method"] not in SAFE and _may_be_json(scope["headers"]):
            try:
                body = await Request(scope, receive).body()
                await asyncio.to_thread(_check, body) if len(body) > QUICK_BYTES else _check(body)
            except (NotInteroperable, ClientDisconnect) as error:
                problem = {"loc": ["body"], "msg": str(error) or "incomplete", "type": "json_invalid"}
                answer = problem_response(scope["path"], HTTPStatus.UNPROCESSABLE_ENTITY, [problem])
                await answer(scope, receive, send)
                return
            except HTTPException as error:
                await problem_response(scope["path"], error.status_code, error.detail)(scope, receive, send)
                return
            receive = _again(body, receive)
        await self._inside(scope, receive, send)


def _again(body: bytes, receive: Receive) -> Receive:
    messages = [{"type": "http.request", "body": body}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again


def _may_be_json(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether some reader of the headers may take the body for JSON: without a type, or with one of several."""
    kinds = [value.partition(b";")[0].lower() for name, value in headers if name == b"content-type"]
    return not kinds or any(b"json" in kind for kind in kinds)


def _check(body: bytes) -> None:
    if _has_too_many_values(body):
        reason = f"the body contains more than {MAX_VALUES} values; put large data into files"
        raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
    if body:
        parse_json(decode_text(body), MAX_DEPTH)


def _has_too_many_values(body: bytes) -> bool:
    """Count the values of a JSON text by the characters outside of strings that begin one, piece by piece."""
    values, is_in_string, rest = 0, False, b""
    for start in range(0, len(body), _PIECE_BYTES):
        # A backslash at the end belongs to the next piece.
        text = (rest + body[start : start + _PIECE_BYTES]).replace(b"\\\\", b"").replace(b'\\"', b"")
        rest = b"\\" if text.endswith(b"\\") else b""
        parts = text.removesuffix(b"\\").split(b'"')
        for part in parts[is_in_string::2]:
            values += part.count(b",") + part.count(b"[") + part.count(b"{")
        if values > MAX_VALUES:
            return True
        is_in_string ^= len(parts) % 2 == 0
    return False
