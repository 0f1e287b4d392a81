"""The login of browsers: a token is exchanged for a cookie, which is not the token."""

import math
import re
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse
from starlette.responses import Response

from ao_server.gate import COOKIE, GatePolicy, login_cookie
from ao_server.logins import LOGIN_SECONDS
from ao_server.pages.rendering import page

routes = APIRouter(include_in_schema=False)
BEGIN: Final = "/ui/runs"
_OWN_PAGE: Final = re.compile(r"/ui/[A-Za-z0-9._~%/?=&+:@!$',;()*-]*")


@routes.get("/login")
async def show_login(request: Request, back: str = "") -> Response:
    """Ask for a token; lead who is logged in to the page that was asked for."""
    if getattr(request.state, "who", None) is not None:
        return RedirectResponse(back if _OWN_PAGE.fullmatch(back) else BEGIN, HTTPStatus.SEE_OTHER)
    return _shown(request, back)


@routes.post("/login")
async def log_in(request: Request, token: Annotated[str, Form()] = "", back: Annotated[str, Form()] = "") -> Response:
    """Set the cookie for a token, if it is one, and go on to the page that was asked for."""
    policy: GatePolicy = request.app.state.policy
    given = token.strip()
    who = policy.who_has_token(given)
    key = None if who is None else policy.login_keys().get(who)
    if who is None or key is None or policy.logins is None:
        seconds = policy.seconds_after_wrong_token(request.client.host if request.client else "")
        if not seconds:
            return _shown(request, back, "This token is not known here.", HTTPStatus.UNAUTHORIZED)
        limited = _shown(request, back, "Too many tokens were wrong; wait for a minute.", HTTPStatus.TOO_MANY_REQUESTS)
        limited.headers["Retry-After"] = str(math.ceil(seconds))
        return limited
    if who.role == "worker":
        wrong = "This is the token of a worker; pages take that of a client or a reader."
        return _shown(request, back, wrong, HTTPStatus.UNAUTHORIZED)
    answer = RedirectResponse(back if _OWN_PAGE.fullmatch(back) else BEGIN, HTTPStatus.SEE_OTHER)
    cookie = policy.logins.begin(key)
    # Links from other sites lead to pages as one who is logged in; the gate refuses what their pages would change.
    answer.set_cookie(
        COOKIE, cookie, LOGIN_SECONDS, httponly=True, samesite="lax", secure=request.url.scheme == "https"
    )
    return answer


@routes.post("/logout")
async def log_out(request: Request) -> Response:
    """End the login, and take the cookie away. A copy of the cookie does not work either."""
    policy: GatePolicy = request.app.state.policy
    if policy.logins is not None:
        policy.logins.end(login_cookie(request.headers.get("cookie", "")), policy.login_keys())
    answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
    answer.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=request.url.scheme == "https")
    return answer


def _shown(request: Request, back: str, wrong: str = "", status: int = 200) -> Response:
    is_needed = request.app.state.policy.tokens is not None
    return page(request, "login.html", status, back=back, wrong=wrong, is_needed=is_needed)
