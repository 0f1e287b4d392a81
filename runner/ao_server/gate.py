"""Who may ask the server for what: tokens with roles, foreign pages, large bodies, and the headers of every answer."""

import hashlib
import hmac
import html
import json
import math
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args
from urllib.parse import quote, unquote

from ao_runner.home import private_folder
from ao_server.rates import RateLimit

Role = Literal["reader", "client", "worker"]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

COOKIE: Final = "ao_login"
TOKEN_BYTES: Final = 32
MAX_BODY_BYTES: Final = 32 * 1024 * 1024
"""Of one request: a worker hands over events of up to 16 MiB."""
MOST_REQUESTS: Final = 2000
"""Of one address in a second. Twenty workers and a hundred clients on one machine send a third of it."""
MOST_WRONG_TOKENS: Final = 30
"""Of one address in a minute; then logins and requests without a valid token are refused until the minute is over."""
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN_PATHS: Final = ("/health", "/login", "/logout", "/static/")
"""What everybody may see."""
_PAGE: Final = (
    '<!doctype html><html lang="en"><title>{phrase}</title><link rel="stylesheet" href="/static/app.css">'
    "<main><h1>{phrase}</h1><p>{reason}</p></main>"
)
HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def tokens_of(home: Path) -> dict[Role, str]:
    """Return the tokens of a server by role, which its first start makes. Only its user can read their file."""
    path = private_folder(home, "server") / "tokens.json"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {role: str(kept[role]) for role in get_args(Role)}
    made: dict[Role, str] = {role: secrets.token_urlsafe(TOKEN_BYTES) for role in get_args(Role)}
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(made, file, indent=2)
    return made


def login_cookie(token: str) -> str:
    """Return the value of the cookie for a token. The token itself is in no cookie."""
    return hmac.new(token.encode(), b"ao serve: login", hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class GatePolicy:
    """What the gate demands.

    Without tokens everybody who reaches the address has all roles: then it has to be a loopback address, and `hosts`
    lists the names under which it may be asked, since a page in a browser could reach it by a name of its own (DNS
    rebinding).
    """

    tokens: Mapping[Role, str] | None
    hosts: frozenset[str] | None = None


@dataclass(eq=False)
class _Refused(Exception):
    status: HTTPStatus
    reason: str
    retry_after_seconds: float | None = None


class Gate:
    """The ASGI middleware around the whole application."""

    def __init__(self, inside: Application, policy: GatePolicy) -> None:
        self._inside = inside
        self._policy = policy
        self._requests = RateLimit(MOST_REQUESTS, 1.0)
        self._wrong_tokens = RateLimit(MOST_WRONG_TOKENS, 60.0)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._inside(scope, receive, send)
            return
        scope = with_whole_segments(scope)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        sender = str((scope.get("client") or ("",))[0])
        send = self._counting(send, sender)
        try:
            self._requests.count(sender)
            _check_rate(self._requests, "requests", sender)
            self._check_text(scope)
            self._check_origin(scope["method"], headers)
            scope["state"] = {**scope.get("state", {}), "role": self._admit(scope, headers, sender)}
            if int(headers.get("content-length") or 0) > MAX_BODY_BYTES:
                raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {MAX_BODY_BYTES} bytes")
        except _Refused as refused:
            await _answer(send, scope, refused)
            return
        except ValueError:
            await _answer(send, scope, _Refused(HTTPStatus.BAD_REQUEST, "Content-Length is no number"))
            return
        await self._inside(scope, _limited(receive), _with_headers(send))

    def _counting(self, send: Send, sender: str) -> Send:
        """Count the answers that say that a token is wrong, so that nobody can try many."""

        async def send_some(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == HTTPStatus.UNAUTHORIZED:
                self._wrong_tokens.count(sender)
            await send(message)

        return send_some

    @staticmethod
    def _check_text(scope: Message) -> None:
        """Refuse a NUL character, which no id contains and no database can look for."""
        query = scope.get("query_string", b"").lower()
        if "\0" in scope["path"] or b"%00" in query:
            raise _Refused(HTTPStatus.BAD_REQUEST, "the address contains a NUL character")

    def _check_origin(self, method: str, headers: Mapping[str, str]) -> None:
        host = headers.get("host", "")
        if self._policy.hosts is not None and host.lower() not in self._policy.hosts:
            raise _Refused(HTTPStatus.FORBIDDEN, f"unknown Host {host[:100]!r}; open http://127.0.0.1:… or localhost")
        if method in SAFE:
            return
        origin = headers.get("origin")
        is_foreign = origin is not None and origin.partition("://")[2] != host
        if is_foreign or headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
            raise _Refused(HTTPStatus.FORBIDDEN, "another site's page must not change anything here")

    def _admit(self, scope: Message, headers: Mapping[str, str], sender: str) -> Role | None:
        """Return the role of the sender; None if there are no tokens."""
        path, method = scope["path"], scope["method"]
        if path == "/login" and method not in SAFE:
            _check_rate(self._wrong_tokens, "wrong tokens", sender)
        if self._policy.tokens is None or path.startswith(OPEN_PATHS):
            return None
        role = self._role(headers)
        if role is None:
            _check_rate(self._wrong_tokens, "wrong tokens", sender)
            raise _Refused(HTTPStatus.UNAUTHORIZED, "missing or invalid token; send Authorization: Bearer TOKEN")
        if not may(role, method, path):
            raise _Refused(HTTPStatus.FORBIDDEN, f"role {role} must not {method} {path[:200]}")
        return role

    def _role(self, headers: Mapping[str, str]) -> Role | None:
        """Return the role of a token or of a login. All tokens are compared, in constant time."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        token = given.strip() if scheme.lower() == "bearer" else ""
        morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        cookie = "" if morsel is None else morsel.value
        tokens = self._policy.tokens or {}
        of_login = role_of_token({role: login_cookie(known) for role, known in tokens.items()}, cookie)
        return role_of_token(tokens, token) or of_login


def with_whole_segments(scope: Message) -> Message:
    """Return a scope in whose path an encoded slash or percent sign stays encoded: an id may contain them."""
    raw = scope.get("raw_path") or b""
    if b"%" not in raw:
        return scope
    kept = raw.replace(b"%25", b"%2525").replace(b"%2F", b"%252F").replace(b"%2f", b"%252F")
    return {**scope, "path": unquote(kept.decode("latin-1"))}


def role_of_token(tokens: Mapping[Role, str], given: str) -> Role | None:
    """Return the role of a token. It is compared with all of them, in constant time."""
    found: Role | None = None
    for role, known in tokens.items():
        if hmac.compare_digest(given.encode(errors="replace"), known.encode()):
            found = role
    return found


def may(role: Role, method: str, path: str) -> bool:
    """Return whether a role may send a request."""
    parts = path.strip("/").split("/")
    if (parts[0], method) == ("runners", "DELETE"):
        return role in {"worker", "client"}
    if is_call_of_worker(method, path):
        return role == "worker"
    if parts[0] == "webhooks":  # a URL may be as good as a token
        return role == "client"
    if method in SAFE:
        return True
    if role == "worker":  # an agent that starts agents asks through its worker, and must not answer for a person
        return parts[0] in {"runs", "sessions"} and parts[2:3] != ["inputs"]
    return role == "client"


def is_call_of_worker(method: str, path: str) -> bool:
    """Return whether a request is one of workers and runners, which perform runs."""
    parts = path.strip("/").split("/")
    return parts[0] in {"runner", "worker"} or (
        parts[0] == "sessions" and (method, *parts[2:]) in {("POST", "bind"), ("POST", "events"), ("PATCH", "metadata")}
    )


def _limited(receive: Receive) -> Receive:
    size = 0

    async def receive_some() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        # A body without a length that is too long ends as if the sender had left.
        return {"type": "http.disconnect"} if size > MAX_BODY_BYTES else message

    return receive_some


def _with_headers(send: Send) -> Send:
    extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def send_some(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name for name, _ in message["headers"]}
            added = [(name, value) for name, value in extra if name not in present]
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return send_some


def _check_rate(limit: RateLimit, what: str, sender: str) -> None:
    if (seconds := limit.wait_seconds(sender)) > 0:
        reason = f"too many {what} from {sender}; wait for {math.ceil(seconds)} s"
        raise _Refused(HTTPStatus.TOO_MANY_REQUESTS, reason, seconds)


async def _answer(send: Send, scope: Message, refused: _Refused) -> None:
    accepts = dict(scope["headers"]).get(b"accept", b"")
    if refused.status == HTTPStatus.UNAUTHORIZED and b"text/html" in accepts and scope["method"] in SAFE:
        back = quote(scope["path"] + (f"?{query}" if (query := scope["query_string"].decode("latin-1")) else ""))
        location = b"/login?back=" + back.encode() if back.startswith("/ui/") else b"/login"
        await _send(send, HTTPStatus.SEE_OTHER, b"", [(b"location", location)])
        return
    body, kind = json.dumps({"detail": refused.reason}).encode(), b"application/json"
    if b"text/html" in accepts:
        phrase, reason = refused.status.phrase, html.escape(refused.reason)
        body, kind = _PAGE.format(phrase=phrase, reason=reason).encode(), b"text/html; charset=utf-8"
    more = [(b"www-authenticate", b"Bearer")] if refused.status == HTTPStatus.UNAUTHORIZED else []
    if refused.retry_after_seconds is not None:
        more = [(b"retry-after", str(math.ceil(refused.retry_after_seconds)).encode())]
    await _send(send, refused.status, body, [(b"content-type", kind), *more])


async def _send(send: Send, status: HTTPStatus, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    sends = _with_headers(send)
    length = (b"content-length", str(len(body)).encode())
    await sends({"type": "http.response.start", "status": status.value, "headers": [*headers, length]})
    await sends({"type": "http.response.body", "body": body})
