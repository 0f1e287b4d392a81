"""Who may ask the server for what: tokens with roles, foreign pages, large bodies, and the headers of every answer."""

import hmac
import html
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final, get_args
from urllib.parse import quote, unquote

from starlette.responses import HTMLResponse, Response

from ao_runner.connections import PEER, Application, Message, Receive, Send, admit, limited
from ao_runner.errors import RunnerError
from ao_runner.home import private_folder
from ao_runner.own_host import is_of_another_site, is_own_host
from ao_server.header_login import HeaderLogin, HeaderRefused
from ao_server.logins import Logins
from ao_server.named_tokens import TOKEN_BYTES, NamedTokens
from ao_server.problem_documents import problem_response
from ao_server.rates import RateLimit
from ao_server.who import Role, Who
from ao_server.who import sender as current_sender

COOKIE: Final = "ao_login"
MAX_BODY_BYTES: Final = 32 * 1024 * 1024
"""Of one request: a worker hands over events of up to 16 MiB."""
MAX_OPEN_BODY_BYTES: Final = 64 * 1024
"""Of a request to which everybody is admitted, where tokens are demanded."""
MOST_REQUESTS: Final = 2000
"""Of one address in a second. Twenty workers and a hundred clients on one machine send a third of it."""
MOST_WRONG_TOKENS: Final = 30
"""Of one address in a minute; then further wrong ones are refused with another answer until the minute is over."""
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN_PATHS: Final = ("/health", "/login", "/logout", "/static/")
"""What everybody may see."""
_TOKEN: Final = re.compile(r"[!-~]{20,1000}")
_COOKIE: Final = re.compile(rf"(?:^|;)\s*{COOKIE}=([A-Za-z0-9_-]{{1,100}})\s*(?:;|$)")
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


class TokensUnusable(RunnerError):
    """The file with the tokens could let in somebody who has none."""

    def __init__(self, path: Path, found: str) -> None:
        super().__init__(
            f"cannot use the tokens of {path}: {found}. Expected a file that only its user can read, with a"
            f" JSON object of three different tokens, {', '.join(get_args(Role))}, each of 20 to 1000 printable ASCII"
            " characters without spaces. Mend it, or delete it: then the next start makes new tokens"
        )


def tokens_of(home: Path) -> dict[Role, str]:
    """Return the tokens of a server by role, which its first start makes. Only its user can read their file.

    Raises:
        TokensUnusable: The file cannot be read, others can read it, or a token is missing or easy to guess.
    """
    path = private_folder(home, "server") / "tokens.json"
    try:
        with (
            suppress(FileExistsError),
            os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file,
        ):
            json.dump({role: secrets.token_urlsafe(TOKEN_BYTES) for role in get_args(Role)}, file, indent=2)
        mode = path.stat().st_mode
        kept = json.loads(path.read_bytes()[: 64 * 1024]) if stat.S_ISREG(mode) else None
    except OSError as error:
        raise TokensUnusable(path, f"it cannot be made or read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise TokensUnusable(path, "it is no JSON") from error
    if mode & 0o077:
        raise TokensUnusable(path, f"its mode is {stat.S_IMODE(mode):04o}, so others can use it; run chmod 600 {path}")
    if not isinstance(kept, dict) or kept.keys() != set(get_args(Role)):
        raise TokensUnusable(path, "it is no object of the three roles")
    for role, token in kept.items():
        if not (isinstance(token, str) and _TOKEN.fullmatch(token)):
            raise TokensUnusable(path, f"the token of {role} is none, or too short or too long")
    if len(set(kept.values())) < len(kept):
        raise TokensUnusable(path, "two roles have the same token")
    return kept


@dataclass(frozen=True, slots=True)
class GatePolicy:
    """What the gate demands.

    Without tokens everybody who reaches the address has all roles: then it has to be a loopback address, and it may be
    asked under the names of this machine and those of `hosts` only, in lower case.
    """

    tokens: Mapping[Role, str] | None
    hosts: frozenset[str] | None = None
    logins: Logins | None = None
    named: NamedTokens | None = None
    header_login: HeaderLogin | None = None
    wrong_tokens: RateLimit = field(default_factory=lambda: RateLimit(MOST_WRONG_TOKENS, 60.0))

    def who_has_token(self, given: str) -> Who | None:
        """Return whose a token is. It is compared with all of them, in constant time. An empty one is nobody's."""
        role = role_of_token(self.tokens or {}, given)
        if role is not None:
            return Who(role)
        return self.named.who_has(given) if given and self.named is not None else None

    def login_keys(self) -> dict[Who, str]:
        """Return with what a login of each is bound to the token: it ends with that. Of a named one it is a digest."""
        named = {} if self.named is None else self.named.current()
        keys = {Who(role): token for role, token in (self.tokens or {}).items()}
        return keys | {Who(token.role, name): token.sha256 for name, token in named.items()}

    def seconds_after_wrong_token(self, sender: str) -> float:
        """Count a wrong token, and return how long its sender has to wait; 0 if its limit is not reached."""
        seconds = self.wrong_tokens.wait_seconds(sender)
        if not seconds:
            self.wrong_tokens.count(sender)
        return seconds


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

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._inside(scope, receive, send)
            return
        scope = with_whole_segments(scope)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        sender = str((scope.get("client") or ("",))[0])
        try:
            known = self._who(scope, headers)
            self._check_rate(f"{known.role} {known.name} {sender}" if known else sender)
            self._check_text(scope)
            self._check_origin(scope["method"], headers)
            role = self._admit(scope, headers, sender, known)
            scope["state"] = {**scope.get("state", {}), "role": role, "who": known}
            most = MAX_BODY_BYTES if known or self._policy.tokens is None else MAX_OPEN_BODY_BYTES
            if int(headers.get("content-length") or 0) > most:  # the web server has checked that it is a number
                raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {most} bytes")
        except _Refused as refused:
            await _response_to(scope, refused)(scope, receive, _with_headers(send))
            return
        if known or self._policy.tokens is None:
            admit(scope)
        is_answered = current_sender.set(known)
        try:
            await self._inside(scope, limited(receive, most), _with_headers(send))
        finally:
            current_sender.reset(is_answered)

    def _check_rate(self, sender: str) -> None:
        """Count a request. Those with a token are counted by themselves, so nobody else uses up their limit."""
        self._requests.count(sender)
        if (seconds := self._requests.wait_seconds(sender)) > 0:
            raise _too_many("requests", sender, seconds)

    @staticmethod
    def _check_text(scope: Message) -> None:
        """Refuse a NUL character, which no id contains and no database can look for."""
        query = scope.get("query_string", b"").lower()
        if "\0" in scope["path"] or b"%00" in query:
            raise _Refused(HTTPStatus.BAD_REQUEST, "the address contains a NUL character")

    def _check_origin(self, method: str, headers: Mapping[str, str]) -> None:
        host = headers.get("host", "")
        if self._policy.hosts is not None and not (is_own_host(host) or host.lower() in self._policy.hosts):
            raise _Refused(HTTPStatus.FORBIDDEN, f"unknown Host {host[:100]!r}; open http://127.0.0.1:… or localhost")
        if method in SAFE:
            return
        if is_of_another_site(headers) or headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
            raise _Refused(HTTPStatus.FORBIDDEN, "another site's page must not change anything here")

    def _admit(self, scope: Message, headers: Mapping[str, str], sender: str, known: Who | None) -> Role | None:
        """Return the role of the sender; None if there are no tokens."""
        path, method = scope["path"], scope["method"]
        if self._policy.tokens is None or path.startswith(OPEN_PATHS):
            return None
        if known is None:
            if "authorization" in headers and (seconds := self._policy.seconds_after_wrong_token(sender)):
                raise _too_many("wrong tokens", sender, seconds)
            raise _Refused(HTTPStatus.UNAUTHORIZED, "missing or invalid token; send Authorization: Bearer TOKEN")
        if not may(known.role, method, path):
            raise _Refused(HTTPStatus.FORBIDDEN, f"role {known.role} must not {method} {path[:200]}")
        return known.role

    def _who(self, scope: Message, headers: Mapping[str, str]) -> Who | None:
        """Return who asks: by a token, else by the header of a proxy, else by the cookie of a login."""
        policy = self._policy
        scheme, _, given = headers.get("authorization", "").partition(" ")
        by_header = None
        if policy.header_login is not None:
            peer = scope.get(PEER) or scope.get("client") or ("",)
            try:
                by_header = policy.header_login.who(scope["headers"], str(peer[0]))
            except HeaderRefused as error:
                raise _Refused(HTTPStatus.FORBIDDEN, str(error)) from error
        who = policy.who_has_token(given.strip()) if scheme.lower() == "bearer" else None
        cookie = login_cookie(headers.get("cookie", ""))
        if (who := who or by_header) is None and cookie and policy.logins is not None:
            return policy.logins.whose(cookie, policy.login_keys())
        return who


def login_cookie(header: str) -> str:
    """Return the cookie of a login in a header `Cookie`; an empty text if there is none."""
    found = _COOKIE.search(header)
    return found[1] if found else ""


def with_whole_segments(scope: Message) -> Message:
    """Return a scope in whose path an encoded slash or percent sign stays encoded: an id may contain them."""
    raw = scope.get("raw_path") or b""
    if b"%" not in raw:
        return scope
    kept = raw.replace(b"%25", b"%2525").replace(b"%2F", b"%252F").replace(b"%2f", b"%252F")
    return {**scope, "path": unquote(kept.decode("latin-1"))}


def role_of_token(tokens: Mapping[Role, str], given: str) -> Role | None:
    """Return the role of a token. It is compared with all of them, in constant time. An empty one has no role."""
    found: Role | None = None
    for role, known in tokens.items():
        if given and hmac.compare_digest(given.encode(errors="replace"), known.encode()):
            found = role
    return found


def may(role: Role, method: str, path: str) -> bool:
    """Return whether a role may send a request."""
    parts = path.strip("/").split("/")
    if (parts[0], method) == ("runners", "DELETE"):
        return role in {"worker", "client"}
    if is_call_of_worker(method, path):
        return role == "worker"
    if parts[:2] == ["ui", "webhooks"] or parts[0] == "webhooks":  # a URL may be as good as a token
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


def _with_headers(send: Send) -> Send:
    extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def send_some(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name for name, _ in message["headers"]}
            added = [(name, value) for name, value in extra if name not in present]
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return send_some


def _too_many(what: str, sender: str, seconds: float) -> _Refused:
    reason = f"too many {what} from {sender}; wait for {math.ceil(seconds)} s"
    return _Refused(HTTPStatus.TOO_MANY_REQUESTS, reason, seconds)


def _response_to(scope: Message, refused: _Refused) -> Response:
    headers = {"connection": "close"}
    is_page = b"text/html" in dict(scope["headers"]).get(b"accept", b"")
    if refused.status == HTTPStatus.UNAUTHORIZED:
        if is_page and scope["method"] in SAFE:
            query = scope["query_string"].decode("latin-1")
            back = quote(f"{scope['path']}?{query}" if query else scope["path"])
            location = f"/login?back={back}" if back.startswith("/ui/") else "/login"
            return Response(None, HTTPStatus.SEE_OTHER, {**headers, "location": location})
        headers["www-authenticate"] = "Bearer"
    if refused.retry_after_seconds is not None:
        headers["retry-after"] = str(math.ceil(refused.retry_after_seconds))
    if is_page:
        page = _PAGE.format(phrase=refused.status.phrase, reason=html.escape(refused.reason))
        return HTMLResponse(page, refused.status, headers)
    return problem_response(scope["path"], refused.status, refused.reason, headers=headers)
