"""The login of browsers: a token is exchanged for a cookie, which is not the token."""

import re
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse
from starlette.responses import Response

from ao_server.gate import COOKIE, login_cookie, role_of_token
from ao_server.pages.rendering import page

routes = APIRouter(include_in_schema=False)
SECONDS: Final = 30 * 24 * 3600
BEGIN: Final = "/ui/runs"
_OWN_PAGE: Final = re.compile(r"/ui/[A-Za-z0-9._~%/?=&+:@!$',;()*-]*")


@routes.get("/login")
async def show_login(request: Request, back: str = "") -> Response:
    """Ask for a token."""
    return _shown(request, back)


@routes.post("/login")
async def log_in(request: Request, token: Annotated[str, Form()] = "", back: Annotated[str, Form()] = "") -> Response:
    """Set the cookie for a token, if it is one, and go on to the page that was asked for."""
    tokens = request.app.state.policy.tokens
    given = token.strip()
    role = role_of_token(tokens or {}, given)
    if tokens is None or role == "worker" or role is None:
        wrong = (
            "This is the token of a worker; pages take that of a client or a reader."
            if role
            else "This token is not known here."
        )
        return _shown(request, back, wrong, HTTPStatus.UNAUTHORIZED)
    answer = RedirectResponse(back if _OWN_PAGE.fullmatch(back) else BEGIN, HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        COOKIE, login_cookie(given), SECONDS, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return answer


@routes.post("/logout")
async def log_out(request: Request) -> Response:
    """Take the cookie away."""
    answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=request.url.scheme == "https")
    return answer


def _shown(request: Request, back: str, wrong: str = "", status: int = 200) -> Response:
    is_needed = request.app.state.policy.tokens is not None
    return page(request, "login.html", status, back=back, wrong=wrong, is_needed=is_needed)
