"""Errors as pages, where a browser asks for HTML. Everybody else gets JSON."""

import inspect
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from starlette.responses import Response

from ao_server.pages.rendering import page

Handler = Callable[[Request, Any], Any]


def wants_html(request: Request) -> bool:
    """Return whether a request comes from a browser that shows its answer."""
    return "text/html" in request.headers.get("accept", "")


def show_errors_as_pages(app: FastAPI) -> None:
    """Let all error handlers of an application answer browsers with a page."""
    for kind, answer in list(app.exception_handlers.items()):
        app.add_exception_handler(kind, _in_html(answer))


def _in_html(answer: Handler) -> Handler:
    async def answer_in_html(request: Request, error: Exception) -> Response:
        answered = answer(request, error)
        found: Response = await answered if inspect.isawaitable(answered) else answered
        if not wants_html(request) or found.status_code < HTTPStatus.BAD_REQUEST:
            return found
        document = json.loads(bytes(found.body))
        message, problems = told(document.get("errors") or document)
        phrase = HTTPStatus(found.status_code).phrase
        shown = {"phrase": phrase, "message": message, "problems": problems, "back": _page_before(request)}
        return page(request, "error.html", found.status_code, **shown)

    return answer_in_html


def _page_before(request: Request) -> str:
    """Return the path of the page with the form that was refused; an empty text if that is none of this server."""
    came = urlsplit(request.headers.get("referer", ""))
    is_own = came.netloc == request.headers.get("host") and came.path.startswith("/ui/")
    return came.path + (f"?{came.query}" if came.query else "") if is_own and request.method == "POST" else ""


def told(detail: Any) -> tuple[str, list[str]]:  # noqa: ANN401  # any JSON
    """Return the message of an error of the API, and its single problems, each with its path."""
    if isinstance(detail, list):  # of FastAPI: the fields of a form or of an address
        return "The request is not valid.", [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in detail]
    if not isinstance(detail, dict):
        return str(detail), []
    problems = detail.get("problems") or detail.get("validation_errors") or []
    return str(detail.get("message", "")), [f"{one['path']}: {one['message']}" for one in problems]
