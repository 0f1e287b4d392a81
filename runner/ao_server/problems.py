"""Errors as HTTP answers, with a status that says whose fault it is."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.routing import Match, Route

from ao_protocol.contracts import Problem
from ao_protocol.json_path import ROOT
from ao_protocol.written import NotInteroperable
from ao_runner.blueprints.loading import InvalidBlueprint
from ao_runner.coordinators.port import CoordinatorUnavailable, LeaseLost, Refused
from ao_runner.errors import RunnerError
from ao_runner.named_schemas.registry import BadSchemaName, NameTaken, SchemaInUse, SchemaNotFound
from ao_runner.named_schemas.vetting import UnacceptableSchema
from ao_runner.runs.batches import NothingToRepeat
from ao_runner.runs.submission import RefusalReason, RunRefused
from ao_runner.store.engine import ConstraintBroken
from ao_runner.store.store_errors import (
    BatchUnknown,
    OfAnotherSession,
    RowConflict,
    SessionBusy,
    SessionsOpen,
    SessionUnknown,
    StoreUnwritable,
)
from ao_server.heads import NOT_READ_ONLY
from ao_server.problem_documents import problem_response

STATUSES: Final[tuple[tuple[tuple[type[Exception], ...], HTTPStatus], ...]] = (
    ((SessionUnknown, BatchUnknown, OfAnotherSession, SchemaNotFound), HTTPStatus.NOT_FOUND),
    ((SessionBusy, SessionsOpen, NameTaken, SchemaInUse, RowConflict, ConstraintBroken, LeaseLost,
      NothingToRepeat),
     HTTPStatus.CONFLICT),
    ((BadSchemaName, UnacceptableSchema, InvalidBlueprint, RunRefused, Refused,
      ValidationError, NotInteroperable),
     HTTPStatus.UNPROCESSABLE_ENTITY),
    ((CoordinatorUnavailable, StoreUnwritable), HTTPStatus.SERVICE_UNAVAILABLE),
    ((RunnerError,), HTTPStatus.INTERNAL_SERVER_ERROR),
)  # fmt: skip


_OF_REASONS: Final = {
    RefusalReason.OWN_PARENT: HTTPStatus.BAD_REQUEST,
    RefusalReason.PARENT_NOT_FOUND: HTTPStatus.BAD_REQUEST,
    RefusalReason.STATELESS: HTTPStatus.BAD_REQUEST,
    RefusalReason.PARAMETERS: HTTPStatus.BAD_REQUEST,
    RefusalReason.CANNOT_RESUME: HTTPStatus.CONFLICT,
}
"""The statuses of refused requests for runs; of the others 422."""
MOST_PROBLEMS: Final = 20
MAX_MESSAGE_CHARACTERS: Final = 300


class Refusal(BaseModel):
    """Why a request is refused (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    code: str = Field(description="The error, for programs.")
    detail: str | list[Any] | dict[str, Any] = Field(description="A sentence; where the older contract has it, more.")
    error: str = Field(description="The same as `code`.")
    message: str = Field(description="A sentence.")


RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    int(status): {"model": Refusal, "description": meaning}
    for status, meaning in {
        HTTPStatus.BAD_REQUEST: "The request cannot be read or carried out.",
        HTTPStatus.UNAUTHORIZED: "A token is missing or invalid.",
        HTTPStatus.FORBIDDEN: "The role of the token, the Host or the Origin does not allow it.",
        HTTPStatus.NOT_FOUND: "There is no such thing.",
        HTTPStatus.CONFLICT: "The state of a thing does not allow it.",
        HTTPStatus.PRECONDITION_FAILED: "It has changed since it was read; see If-Match.",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
        HTTPStatus.UNPROCESSABLE_ENTITY: "A field is invalid.",
        HTTPStatus.TOO_MANY_REQUESTS: "Too many requests, or wrong tokens, from this address; see Retry-After.",
        HTTPStatus.SERVICE_UNAVAILABLE: "The store cannot be used now; retry.",
    }.items()
}
"""The documented refusals of every call."""


class Told(HTTPException):
    """A request that is refused with a sentence, as in the older contract, and the code of its error."""

    def __init__(self, status: int, code: str | None, sentence: str) -> None:
        super().__init__(status, sentence)
        self.code = code


def refusal(status: HTTPStatus, error: str, message: str, **facts: JsonValue) -> HTTPException:
    """Return the exception for a request that is refused with a typed error."""
    return HTTPException(status, {"error": error, "message": message, **facts})


def in_batch(error: Exception, number: int) -> HTTPException:
    """Return the refusal of one of several runs, with its place among them."""
    status, detail = answer_to(error)
    place = f"$.runs[{number}]"
    if not isinstance(detail, dict):
        return Told(status, code_of(error), f"{place}: {detail}")
    detail = {**detail, "message": f"{place}: {detail['message']}"}
    if problems := detail.get("validation_errors"):
        detail["validation_errors"] = [{**one, "path": place + one["path"].removeprefix(ROOT)} for one in problems]
    return HTTPException(status, detail)


def answer_to(error: Exception) -> tuple[int, Any]:
    """Return status and detail of the answer to an error."""
    if isinstance(error, StarletteHTTPException):
        return error.status_code, error.detail
    status = next(status for kinds, status in STATUSES if isinstance(error, kinds))
    if isinstance(error, UnacceptableSchema):
        message = f"{error.what} is not an acceptable JSON Schema"
        return status, {"error": "invalid_schema", "message": message, "problems": problems_in(error.problems)}
    if isinstance(error, SchemaNotFound):
        return status, {"error": "SchemaNotFound", "message": str(error)}
    if not isinstance(error, RunRefused):
        return status, str(error)
    if error.reason is RefusalReason.SESSION_EXISTS:
        return HTTPStatus.CONFLICT, str(error)  # as the existing coordinator answers
    detail = {"error": str(error.reason), "message": str(error), **error.facts}
    if error.problems:
        detail["validation_errors"] = problems_in(error.problems)
    return _OF_REASONS.get(error.reason, status), detail


def problems_in(problems: Sequence[Problem]) -> JsonValue:
    """Return the problems of a document as JSON: path and message of each."""
    return [{"path": problem.path, "message": problem.message} for problem in problems]


def handle_errors(app: FastAPI) -> None:
    """Let an application answer the errors of the runner and of the store with their statuses."""
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    for kinds, _ in STATUSES:
        for kind in kinds:
            app.add_exception_handler(kind, _answer)
    app.add_exception_handler(StarletteHTTPException, _answer)
    app.add_exception_handler(HTTPStatus.METHOD_NOT_ALLOWED, _tell_methods)


def _tell_methods(request: Request, _error: Exception) -> Response:
    """Answer a wrong method with all methods of the path; the router tells those of one route only."""
    routes = (one for part in (request.app, *request.app.state.parts) for one in part.routes)
    matching = [one for one in routes if isinstance(one, Route | APIRoute) and _matches(one, request)]
    methods = {method for one in matching if one.path == matching[0].path for method in one.methods or ()}
    if "GET" in methods and not request.scope["path"].startswith(NOT_READ_ONLY):
        methods.add("HEAD")
    status = HTTPStatus.METHOD_NOT_ALLOWED
    allow = {"Allow": ", ".join(sorted(methods))}
    return problem_response(request.scope["path"], status, status.phrase, headers=allow)


def _matches(route: Route, request: Request) -> bool:
    return route.matches(request.scope)[0] is not Match.NONE


def _answer_invalid(request: Request, error: Exception) -> Response:
    """Return the problems of a request, without the input: it may be megabytes, or text that UTF-8 cannot hold."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    problems = [
        {"loc": list(map(str, one["loc"])), "msg": str(one["msg"])[:MAX_MESSAGE_CHARACTERS], "type": one["type"]}
        for one in found[:MOST_PROBLEMS]
    ]
    if problems and problems[0]["loc"] == ["body"] and "json" not in request.headers.get("content-type", ""):
        problems[0]["msg"] = "expected JSON; send Content-Type: application/json"
    return problem_response(request.scope["path"], HTTPStatus.UNPROCESSABLE_ENTITY, problems)


def _answer(request: Request, error: Exception) -> Response:
    status, detail = answer_to(error)
    headers = dict(getattr(error, "headers", None) or {})
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "1"
    return problem_response(request.scope["path"], status, detail, code_of(error), headers)


def code_of(error: Exception) -> str | None:
    """Return the code of an error that is told in a sentence: its own, or the name of its type."""
    if isinstance(error, StarletteHTTPException):
        return error.code if isinstance(error, Told) else None
    if isinstance(error, RunRefused):
        return str(error.reason)
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()
