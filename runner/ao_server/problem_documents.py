"""Refusals as problem documents (RFC 9457), with a code; those of the older contract's calls keep its `detail`."""

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import Response

PROBLEM: Final = "application/problem+json"
_CODES: Final = {413: "body_too_large", 422: "invalid_request"}
"""Codes that are not the name of their status, since versions of Python name these otherwise."""
_OLDER: Final = re.compile(
    r"/(runners?(/.*)?|runs(/(?!batch$)[^/]+(/stop)?)?|agents(/(?!check$)[^/]+(/status)?)?|sse/sessions"
    r"|sessions(/[^/]+(/(status|result|affinity|bind|events|metadata|stop))?)?|(scripts|mcp-servers)(/.*)?)"
)
"""The paths of the older contract. There `detail` may be an object or a list, which RFC 9457 lets readers ignore."""


def problem_document(path: str, status: int, detail: Any, code: str | None = None) -> dict[str, Any]:  # noqa: ANN401  # JSON
    """Return the answer to a refused request.

    Args:
        path: The path of the request.
        status: The status of the answer.
        detail: A sentence; or `error`, `message` and facts; or the invalid fields, each with `loc` and `msg`.
        code: The code of a sentence; by default the name of its status.
    """
    phrase = HTTPStatus(status).phrase
    facts: Mapping[str, Any]
    match detail:
        case {"error": error, "message": message}:
            facts = detail
        case list():
            told = "; ".join(f"{'.'.join(one['loc'])}: {one['msg']}" for one in detail)
            error, message, facts = code or "invalid_request", told, {"errors": detail}
        case _:
            error, message, facts = code or _CODES.get(status) or re.sub(r"\W+", "_", phrase).lower(), str(detail), {}
    members = {"type": "about:blank", "title": phrase, "status": int(status), "code": error, "error": error}
    return {**facts, **members, "message": message, "detail": detail if _OLDER.fullmatch(path) else message}


def problem_response(
    path: str,
    status: int,
    detail: Any,  # noqa: ANN401  # JSON
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the same as a response. A text that UTF-8 cannot hold is escaped."""
    body = json.dumps(problem_document(path, status, detail, code))
    return Response(body, status, headers, media_type=PROBLEM)
