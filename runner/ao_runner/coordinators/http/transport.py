"""HTTP requests and the meaning of their responses. This module retries nothing and is independent of runs."""

import asyncio
import json
import re
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self, TypeGuard
from urllib.parse import urlsplit

from pydantic import JsonValue

from ao_protocol.addresses import Address, shown_address, without_credentials
from ao_protocol.short_text import shorten_line
from ao_protocol.wire import JsonObject
from ao_runner.coordinators.port import CoordinatorUnavailable, CoordinatorUnusable, Refused
from ao_runner.profiles import COORDINATOR_TOKEN

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True)
class Timing:
    """The timeouts and intervals, in seconds. The server sets the time of a poll and the interval of heartbeats."""

    connect_seconds: float = 5.0
    answer_seconds: float = 20.0
    """The timeout of one request, from the connection to the last byte of the response."""
    poll_margin_seconds: float = 10.0
    """How much longer than the server's time a poll may take."""
    shortest_poll_seconds: float = 0.5
    """The minimum time of a poll without news. A pause follows a shorter one, so that the worker never spins."""
    idle_seconds: float = 30.0
    """After this time `claim` and `orders` return nothing."""
    watch_seconds: float = 2.0
    """How often a worker that does not poll requests the status of its runs."""
    missed_seconds: float = 2.0
    """A run that was claimed for this worker counts as missed after this time without a response."""
    first_pause_seconds: float = 1.0
    longest_pause_seconds: float = 30.0
    duplicate_pause_seconds: float = 5.0
    duplicate_seconds: float = 180.0
    """How long to wait for another worker of the same identity. The server forgets a crashed one after about 150 s."""
    dead_poll_seconds: float = 1.0
    """How long the server may take to end the poll of a killed worker; it checks twice a second."""
    farewell_seconds: float = 5.0


USUAL_TIMING: Final = Timing()
MAX_SHOWN_CHARACTERS: Final = 300
MAX_DIGITS: Final = 4000
"""Python refuses to parse longer integers, and with them the whole response. No such integer is valid in a run."""


@dataclass(frozen=True, slots=True)
class ServerReply:
    """A response of the coordinator itself: a success, or a refusal with its reason."""

    status: int
    body: JsonValue

    @property
    def document(self) -> JsonObject:
        """The body; empty if it is missing or not an object."""
        return self.body if isinstance(self.body, dict) else {}

    @property
    def is_success(self) -> bool:
        """True for 2xx."""
        return 200 <= self.status < 300

    @property
    def error(self) -> str:
        """The short name of the error, such as `duplicate_runner`; empty if there is none."""
        detail = self.document.get("detail")
        name = self.document.get("code") or (detail.get("error") if isinstance(detail, dict) else detail)
        return name if isinstance(name, str) else ""

    @property
    def reason(self) -> str:
        """The status and the reason of a refusal, shortened, for people."""
        return f"{self.status}: {shortened(_worded(self.document.get('detail')))}"


@dataclass(eq=False)
class Unanswered(CoordinatorUnavailable):
    """A request without a valid response, so that its effect is unknown."""

    in_doubt: bool = True
    """False if the request was certainly not performed."""
    is_garbage: bool = False
    """The response is perhaps not from a coordinator."""


def understood(place: str, status: int, headers: Mapping[str, str], body: bytes) -> ServerReply:
    """Return the coordinator's response.

    Raises:
        Unanswered: The coordinator cannot answer now, or the response is not its own, such as a page of a proxy.
    """
    if status >= 500 or status in {408, 425, 429}:
        reason = f"it answered {status}" + (f", {shown}" if (shown := shortened(_text(body))) else "")
        raise Unanswered(place, reason, _retry_after(headers), in_doubt=status >= 500)
    is_json, document = _decoded(body)
    if status in {401, 403}:
        return ServerReply(status, document)
    if not is_json or 300 <= status < 400 or (status >= 400 and not isinstance(document, dict)):
        shown = shortened(_text(body)) or headers.get("location", "nothing")
        raise Unanswered(place, f"expected JSON and found, with status {status}: {shown}", is_garbage=True)
    return ServerReply(status, document)


def is_name(value: JsonValue) -> TypeGuard[str]:
    """Return whether a value can be a name in a URL: text that is not empty and valid Unicode."""
    return isinstance(value, str) and value != "" and not any("\ud800" <= character <= "\udfff" for character in value)


def shortened(text: str) -> str:
    """Return the text on one line, shortened for an error message."""
    return shorten_line(text, MAX_SHOWN_CHARACTERS)


def _decoded(body: bytes) -> tuple[bool, JsonValue]:
    """Return whether a body is JSON, and its value. An empty body is valid, with the value None."""
    if not body.strip():
        return True, None
    try:
        return True, json.loads(body, parse_int=lambda digits: int(digits[:MAX_DIGITS]))
    except (ValueError, RecursionError):
        return False, None


def _worded(detail: JsonValue) -> str:
    match detail:
        case str():
            return detail
        case {"error": str(error), "message": str(message)}:
            return f"{error}: {message}"
        case None:
            return "no reason given"
        case _:
            return json.dumps(detail, ensure_ascii=False)


def _text(body: bytes) -> str:
    return body[: 4 * MAX_SHOWN_CHARACTERS].decode("utf-8", "replace")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of `Retry-After`; None for a date, because clocks differ."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if seconds >= 0 else None


VERSIONS_HEADER: Final = "AO-Coordinator-Versions"
"""The header with the versions of the coordinator protocol that a worker speaks."""
COORDINATOR_VERSIONS: Final = ("1.0",)
MAX_CONNECTIONS: Final = 128
MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
"""Longer than a hundred events, or a run with all its details."""


class Exchange:
    """The connections to the coordinator. A `with` block owns them. The token is in no error, address or `repr`."""

    def __init__(self, url: str, token: str | None, timing: Timing, max_answer_bytes: int = MAX_ANSWER_BYTES) -> None:
        self.place = shown_address(url).rstrip("/")
        self._url = url.rstrip("/")
        self._token = token
        self._timing = timing
        self._max_answer_bytes = max_answer_bytes
        self._all: list[httpx.AsyncHTTPTransport] = []
        self._idle: list[httpx.AsyncHTTPTransport] = []
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)

    async def __aenter__(self) -> Self:
        """Prepare the connections; nothing is sent.

        Raises:
            CoordinatorUnusable: The address or the token is not valid.
        """
        import httpx

        self._headers = httpx.Headers(self._plain_headers())
        self._certificates = httpx.create_ssl_context()
        self._proxy = _proxy(self._url)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        for transport in self._all:
            await transport.aclose()
        self._all.clear()
        self._idle.clear()

    async def ask(
        self, method: str, path: str, document: JsonObject | None = None, seconds: float | None = None
    ) -> ServerReply:
        """Send one request and return the coordinator's response, within `seconds` or the usual timeout.

        Raises:
            Unanswered: No response came, or it is not from a coordinator.
            CoordinatorUnusable: The address has an unsupported protocol.
            Refused: `path` is not valid in a request; nothing was sent.
        """
        body = None if document is None else json.dumps(document, separators=(",", ":")).encode()
        bound = self._timing.answer_seconds if seconds is None else seconds
        return understood(self.place, *await self._answer(method, path, body, bound))

    async def download(self, path: str) -> bytes | None:
        """Return a file of the server; None if it does not exist. Raises as `ask` does."""
        status, headers, content = await self._answer("GET", path, None, self._timing.answer_seconds)
        if status == 200:
            return content
        understood(self.place, status, headers, content)
        return None

    async def _answer(
        self, method: str, path: str, body: bytes | None, bound: float
    ) -> "tuple[int, httpx.Headers, bytes]":
        import httpx

        try:
            async with asyncio.timeout(bound):
                return await self._send(method, path, body)
        except TimeoutError as error:
            raise Unanswered(self.place, f"no answer within {bound:g} s") from error
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unanswered(self.place, _reason_of(error), in_doubt=False) from error
        except (httpx.InvalidURL, UnicodeError) as error:
            raise Refused(f"{method} {path[:MAX_SHOWN_CHARACTERS]!r}", f"no request can hold it: {error}") from error
        except httpx.UnsupportedProtocol as error:
            advice = "give an address such as http://host:8765"
            raise CoordinatorUnusable(self.place, _reason_of(error), advice) from error
        except httpx.HTTPError as error:
            raise Unanswered(self.place, _reason_of(error)) from error

    async def _send(self, method: str, path: str, body: bytes | None) -> "tuple[int, httpx.Headers, bytes]":
        import httpx

        timeouts = {"connect": self._timing.connect_seconds}
        request = httpx.Request(
            method, self._url + path, headers=self._headers, content=body, extensions={"timeout": timeouts}
        )
        async with self._free:
            transport = self._idle.pop() if self._idle else self._new_transport()
            try:
                async with aclosing(await transport.handle_async_request(request)) as response:
                    content = await self._content_of(response)
            except BaseException:  # it was interrupted in the middle of a response
                self._all.remove(transport)
                await transport.aclose()
                raise
            self._idle.append(transport)
        return response.status_code, response.headers, content

    async def _content_of(self, response: "httpx.Response") -> bytes:
        # Decompression is unbounded: a few kilobytes may become gigabytes. The request accepts `identity` only.
        if (encoding := response.headers.get("content-encoding", "identity").strip().lower()) != "identity":
            reason = f"its answer has the Content-Encoding {shortened(encoding)!r}, expected identity, as it was asked"
            raise Unanswered(self.place, f"{reason}; turn off compression at the server or proxy", is_garbage=True)
        content = bytearray()
        async for chunk in response.aiter_raw():
            content += chunk
            if len(content) > self._max_answer_bytes:
                reason = f"its answer is longer than {self._max_answer_bytes} bytes"
                raise Unanswered(self.place, reason, is_garbage=True)
        return bytes(content)

    def _new_transport(self) -> "httpx.AsyncHTTPTransport":
        """Return another connection.

        Each connection has its own transport. A shared pool checks every connection for each request, which cost 2 ms
        with 32 of them. httpx.AsyncClient is not used: its redirects, cookies and authentication, which are not needed
        here, took a third of the time (tests/foreign_coordinator/relaying.py).
        """
        import httpx

        one = httpx.Limits(max_connections=1, max_keepalive_connections=1)
        transport = httpx.AsyncHTTPTransport(verify=self._certificates, limits=one, proxy=self._proxy)
        self._all.append(transport)
        return transport

    def _plain_headers(self) -> dict[str, str]:
        if not _is_address(self._url):
            raise CoordinatorUnusable(self.place, "this is not an address", "use one such as http://host:8765")
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            VERSIONS_HEADER: ", ".join(COORDINATOR_VERSIONS),
        }
        if self._token:
            # Checked here, because the error of an invalid header would show the token.
            if not (self._token.isascii() and self._token.isprintable()):
                reason = "the token holds characters that no header may"
                raise CoordinatorUnusable(self.place, reason, "check the variable that it is in")
            headers["Authorization"] = f"Bearer {self._token}"
        return headers


def token_of(environ: Mapping[str, str]) -> str | None:
    """Return the token for a coordinator from the environment."""
    return environ.get(COORDINATOR_TOKEN, "").strip() or None


def _proxy(url: str) -> str | None:
    """Return the proxy for an address from the environment; None without one."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    proxies = getproxies()
    found = None if proxy_bypass(parts.hostname or "") else proxies.get(parts.scheme) or proxies.get("all")
    if found is not None and not re.match(r"(https?|socks5h?)://", shown_address(found)):
        advice = "write http_proxy, https_proxy or all_proxy as http://user:password@host:port, percent-encoded"
        raise CoordinatorUnusable(shown_address(url), "its proxy in the environment is no address", advice)
    return found


def _is_address(url: str) -> bool:
    import httpx

    try:
        parts = urlsplit(url)
        httpx.URL(url)
        is_clear = Address.parse(url) is not None  # else an error could show the password
        return is_clear and parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except (ValueError, httpx.InvalidURL):
        return False


def _reason_of(error: Exception) -> str:
    return without_credentials(str(error)) or type(error).__name__
