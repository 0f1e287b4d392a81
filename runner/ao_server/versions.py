"""Versions of stored things (RFC 9110, 8.8.3 and 13.1.1): a client changes only what it has read."""

import hashlib
import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Depends, Header, Response

from ao_protocol.wire import JsonObject
from ao_server.problems import Told

IfMatch = Annotated[str | None, Header(description="The ETag of what is to be changed: 412 if it is another one now.")]
ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class Version:
    """The version that a request is about, and that its answer tells. By default any one will do."""

    wanted: str = ANY
    answer: Response = field(default_factory=Response)

    def check(self, shown: JsonObject) -> None:
        """Refuse the request unless it is about a thing as it is now.

        Raises:
            HTTPException: Somebody else has changed it.
        """
        wanted = {one.strip().removeprefix("W/") for one in self.wanted.split(",")}  # as proxies that compress mark it
        if not {ANY, tag_of(shown)} & wanted:
            message = f"somebody else has changed {shown['name']}; read it again, and send its ETag as If-Match"
            raise Told(HTTPStatus.PRECONDITION_FAILED, "changed_meanwhile", message)

    def tell(self, shown: JsonObject) -> JsonObject:
        """Return a thing, and tell its version in the answer."""
        self.answer.headers["ETag"] = tag_of(shown)
        return shown


async def _version(response: Response, if_match: IfMatch = None) -> Version:
    return Version(if_match or ANY, response)


Versioned = Annotated[Version, Depends(_version)]


def tag_of(shown: JsonObject) -> str:
    """Return the ETag of a stored thing. How many runs use it is no part of it."""
    kept = {name: value for name, value in shown.items() if name != "used_by_runs"}
    return f'"{hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:32]}"'
