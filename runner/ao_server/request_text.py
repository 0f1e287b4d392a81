"""What a request says, read by the rules of the protocol: the segments of its path, and its JSON body."""

import asyncio
from functools import partial
from http import HTTPStatus
from typing import Annotated, Final

from pydantic import AfterValidator
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse

from ao_protocol.framing import MAX_DEPTH
from ao_protocol.written import MAX_PATH_CHARACTERS, NotInteroperable, check_name, decode_text, parse_json
from ao_server.gate import Application, Message, Receive, Send, with_whole_segments

QUICK_BYTES: Final = 64 * 1024
"""A longer body is parsed in a thread, so that other requests are answered meanwhile."""

Segment = AfterValidator(lambda text: text.replace("%2F", "/").replace("%25", "%"))
"""For a parameter in a path: it becomes what the client has encoded."""
Name = Annotated[str, AfterValidator(check_name)]
"""For the name of a new thing in a body."""
Folder = Annotated[str, AfterValidator(partial(check_name, most=MAX_PATH_CHARACTERS))]
"""For a path, or the name of a profile, in a body."""


class StrictBodies:
    """The ASGI middleware that refuses a JSON body which is not I-JSON (RFC 7493), or too deep for the protocol.

    The libraries behind it accept NaN, duplicate keys and halves of surrogate pairs.
    """

    def __init__(self, inside: Application) -> None:
        self._inside = inside

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope = with_whole_segments(scope)
        if scope["type"] == "http" and any(map(_says_json, scope["headers"])):
            try:
                body = await Request(scope, receive).body()
                await asyncio.to_thread(_check, body) if len(body) > QUICK_BYTES else _check(body)
            except (NotInteroperable, ClientDisconnect) as error:
                problem = {"loc": ["body"], "msg": str(error) or "incomplete", "type": "json_invalid"}
                await JSONResponse({"detail": [problem]}, HTTPStatus.UNPROCESSABLE_ENTITY)(scope, receive, send)
                return
            receive = _again(body, receive)
        await self._inside(scope, receive, send)


def _again(body: bytes, receive: Receive) -> Receive:
    messages = [{"type": "http.request", "body": body}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again


def _says_json(header: tuple[bytes, bytes]) -> bool:
    """Return whether some reader of a header may take the body for JSON."""
    return header[0] == b"content-type" and b"json" in header[1].partition(b";")[0].lower()


def _check(body: bytes) -> None:
    if body:
        parse_json(decode_text(body), MAX_DEPTH)
