"""Errors as HTTP answers: `{"detail": …}` with a status that says whose fault it is."""

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field, JsonValue, ValidationError
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
    """Why a request is refused."""

    detail: str | dict[str, Any] | list[dict[str, Any]] = Field(
        description="A sentence; or `error`, `message` and facts; or the invalid fields, each with `loc` and `msg`."
    )


RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    int(status): {"model": Refusal, "description": meaning}
    for status, meaning in {
        HTTPStatus.BAD_REQUEST: "The request cannot be read or carried out.",
        HTTPStatus.UNAUTHORIZED: "A token is missing or invalid.",
        HTTPStatus.FORBIDDEN: "The role of the token, the Host or the Origin does not allow it.",
        HTTPStatus.NOT_FOUND: "There is no such thing.",
        HTTPStatus.CONFLICT: "The state of a thing does not allow it.",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
        HTTPStatus.UNPROCESSABLE_ENTITY: "A field is invalid.",
        HTTPStatus.TOO_MANY_REQUESTS: "Too many requests, or wrong tokens, from this address; see Retry-After.",
        HTTPStatus.SERVICE_UNAVAILABLE: "The store cannot be used now; retry.",
    }.items()
}
"""The documented refusals of every call."""


def refusal(status: HTTPStatus, error: str, message: str, **facts: JsonValue) -> HTTPException:
    """Return the exception for a request that is refused with a typed error."""
    return HTTPException(status, {"error": error, "message": message, **facts})


def in_batch(error: Exception, number: int) -> HTTPException:
    """Return the refusal of one of several runs, with its place among them."""
    status, detail = answer_to(error)
    place = f"$.runs[{number}]"
    if not isinstance(detail, dict):
        return HTTPException(status, f"{place}: {detail}")
    detail = {**detail, "message": f"{place}: {detail['message']}"}
    if problems := detail.get("validation_errors"):
        detail["validation_errors"] = [{**one, "path": place + one["path"].removeprefix(ROOT)} for one in problems]
    return HTTPException(status, detail)


def answer_to(error: Exception) -> tuple[int, Any]:
    """Return status and detail of the answer to an error."""
    if isinstance(error, HTTPException):
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
    app.add_exception_handler(HTTPStatus.METHOD_NOT_ALLOWED, _tell_methods)


def _tell_methods(request: Request, _error: Exception) -> JSONResponse:
    """Answer a wrong method with all methods of the path; the router tells those of one route only."""
    methods: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route | APIRoute) and route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    allow = {"Allow": ", ".join(sorted(methods))}
    return JSONResponse({"detail": "Method Not Allowed"}, HTTPStatus.METHOD_NOT_ALLOWED, allow)


def _answer_invalid(_request: Request, error: Exception) -> Response:
    """Return the problems of a request, without the input: it may be megabytes, or text that UTF-8 cannot hold."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    problems = [
        {"loc": list(map(str, one["loc"])), "msg": str(one["msg"])[:MAX_MESSAGE_CHARACTERS], "type": one["type"]}
        for one in found[:MOST_PROBLEMS]
    ]
    body = json.dumps({"detail": problems})
    return Response(body, HTTPStatus.UNPROCESSABLE_ENTITY, media_type="application/json")


def _answer(_request: Request, error: Exception) -> JSONResponse:
    status, detail = answer_to(error)
    headers = {"Retry-After": "1"} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}
    return JSONResponse({"detail": detail}, status, headers)
