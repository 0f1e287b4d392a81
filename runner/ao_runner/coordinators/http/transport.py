"""The door to HTTP: one request and one answer at a time, and what it means. It repeats nothing and knows no runs."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self, TypeGuard
from urllib.parse import urlsplit

from pydantic import JsonValue

from ao_protocol.wire import JsonObject
from ao_runner.coordinators.port import CoordinatorUnavailable, CoordinatorUnusable, Refused

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True)
class Timing:
    """Every wait has its bound here; how long a poll lasts, and how often a heartbeat is due, the server says."""

    connect_seconds: float = 5.0
    answer_seconds: float = 20.0
    """For one request, from the connection to the last byte of the answer."""
    poll_margin_seconds: float = 10.0
    """What a poll may take longer than the server says."""
    shortest_poll_seconds: float = 0.5
    """A poll that brought nothing any sooner is followed by a pause, so that no server makes a worker spin."""
    idle_seconds: float = 30.0
    """After so long `claim` and `orders` return with nothing."""
    watch_seconds: float = 2.0
    """How often a worker that does not poll asks how its runs stand."""
    missed_seconds: float = 2.0
    """How long a run is claimed for this worker, and its answer has not come, before it counts as missed."""
    first_pause_seconds: float = 1.0
    longest_pause_seconds: float = 30.0
    duplicate_pause_seconds: float = 5.0
    duplicate_seconds: float = 180.0
    """How long to wait for a worker of the same identity to be forgotten: a crashed one is, after about 150 s."""
    dead_poll_seconds: float = 1.0
    """How long the server may take to end the poll of a killed worker; it looks twice a second."""
    farewell_seconds: float = 5.0


MAX_SHOWN_CHARACTERS: Final = 300
MAX_DIGITS: Final = 4000
"""Python refuses to read longer integers, and with one of them the whole answer; no run can be sent either."""
_AGAIN_LATER: Final = frozenset({408, 425, 429})
_WHO_ARE_YOU: Final = frozenset({401, 403})


@dataclass(frozen=True, slots=True)
class Answer:
    """What the coordinator itself answered: a success, or a refusal with its reason."""

    status: int
    body: JsonValue

    @property
    def document(self) -> JsonObject:
        """The body; empty where there was none, or one that is no object."""
        return self.body if isinstance(self.body, dict) else {}

    @property
    def is_success(self) -> bool:
        """True for 2xx."""
        return 200 <= self.status < 300

    @property
    def error(self) -> str:
        """The short name of the error, such as `duplicate_runner`; empty where there is none."""
        detail = self.document.get("detail")
        name = detail.get("error") if isinstance(detail, dict) else detail
        return name if isinstance(name, str) else ""

    @property
    def reason(self) -> str:
        """Why it was refused, for people, cut short."""
        return f"{self.status}: {shortened(_worded(self.document.get('detail')))}"


@dataclass(eq=False)
class Unanswered(CoordinatorUnavailable):
    """A request of which nobody knows for sure that the coordinator refused it or carried it out."""

    in_doubt: bool = True
    """False where it certainly was not carried out."""
    is_garbage: bool = False
    """Somebody answered, who is perhaps no coordinator at all."""


def understood(place: str, status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """Return what the coordinator said.

    Raises:
        Unanswered: it cannot now, or it was somebody else who answered, such as a proxy with a page of its own.
    """
    if status >= 500 or status in _AGAIN_LATER:
        reason = f"it answered {status}" + (f", {shown}" if (shown := shortened(_text(body))) else "")
        raise Unanswered(place, reason, _retry_after(headers), in_doubt=status >= 500)
    is_json, document = _decoded(body)
    if status in _WHO_ARE_YOU:
        return Answer(status, document)
    if not is_json or 300 <= status < 400 or (status >= 400 and not isinstance(document, dict)):
        shown = shortened(_text(body)) or headers.get("location", "nothing")
        raise Unanswered(place, f"expected JSON and found, with status {status}: {shown}", is_garbage=True)
    return Answer(status, document)


def is_name(value: JsonValue) -> TypeGuard[str]:
    """Tell whether a value can name something in an address: text that is not empty and valid Unicode."""
    return isinstance(value, str) and value != "" and not any("\ud800" <= character <= "\udfff" for character in value)


def shortened(text: str) -> str:
    """Return a text on one line and no longer than is good for an error."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN_CHARACTERS else f"{line[:MAX_SHOWN_CHARACTERS]}…"


def _decoded(body: bytes) -> tuple[bool, JsonValue]:
    """Return whether a body is JSON, and what it says. An empty one says nothing, which is fine."""
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
    """Return the seconds that are asked for. A date is not understood: clocks differ."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if seconds >= 0 else None


VERSIONS_HEADER: Final = "AO-Coordinator-Versions"
"""Says to a server that looks for it which versions of the coordinator protocol a worker speaks."""
COORDINATOR_VERSIONS: Final = ("1.0",)
MAX_CONNECTIONS: Final = 128
MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
"""Longer than a hundred events, or a run with all that belongs to it."""


class Exchange:
    """A `with` block owns the connections. The token is in no error, no address and no representation."""

    def __init__(self, url: str, token: str | None, timing: Timing, max_answer_bytes: int = MAX_ANSWER_BYTES) -> None:
        self.place = _place(url)
        self._url = url.rstrip("/")
        self._token = token
        self._timing = timing
        self._max_answer_bytes = max_answer_bytes
        self._all: list[httpx.AsyncHTTPTransport] = []
        self._idle: list[httpx.AsyncHTTPTransport] = []
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)

    async def __aenter__(self) -> Self:
        """Get ready; nothing is sent.

        Raises:
            CoordinatorUnusable: the address or the token cannot be one.
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
    ) -> Answer:
        """Send one request and return the coordinator's answer, within `seconds` or the usual bound.

        Raises:
            Unanswered: there was no answer, or none that a coordinator gives.
            CoordinatorUnusable: the address leads nowhere, whenever it is tried.
            Refused: `path` cannot stand in a request; nothing was sent.
        """
        body = None if document is None else json.dumps(document, separators=(",", ":")).encode()
        bound = self._timing.answer_seconds if seconds is None else seconds
        return understood(self.place, *await self._answer(method, path, body, bound))

    async def download(self, path: str) -> bytes | None:
        """Return a file of the server's; None where there is none. Raises as `ask` does."""
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
            raise CoordinatorUnusable(
                self.place, _reason_of(error), "give an address such as http://host:8765"
            ) from error
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
            is_whole = False
            try:
                response = await transport.handle_async_request(request)
                try:
                    content = await self._content_of(response)
                    is_whole = True
                finally:
                    await response.aclose()
            finally:
                await self._put_back(transport, is_whole=is_whole)
        return response.status_code, response.headers, content

    async def _content_of(self, response: "httpx.Response") -> bytes:
        # Unpacking has no bound: a few kilobytes may become gigabytes. A server that keeps HTTP sends nothing packed.
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

    async def _put_back(self, transport: "httpx.AsyncHTTPTransport", *, is_whole: bool) -> None:
        """Keep a connection for the next request, unless nobody knows what is still under way on it."""
        if is_whole:
            self._idle.append(transport)
        else:
            self._all.remove(transport)
            await transport.aclose()

    def _new_transport(self) -> "httpx.AsyncHTTPTransport":
        """Return another connection.

        Each is a transport of its own: the pool of one for all looks at every connection for each request, which cost
        2 ms with 32 of them. And there is no httpx.AsyncClient: its redirects, cookies and logins, of which none is
        wanted here, took a third of the time (tests/foreign_coordinator/relaying.py).
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
            # What cannot stand in a header would be shown by the error that says so.
            if not (self._token.isascii() and self._token.isprintable()):
                raise CoordinatorUnusable(
                    self.place, "the token holds characters that no header may", "check the variable that it is in"
                )
            headers["Authorization"] = f"Bearer {self._token}"
        return headers


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment names for an address."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    proxies = getproxies()
    return None if proxy_bypass(parts.hostname or "") else proxies.get(parts.scheme) or proxies.get("all")


def _is_address(url: str) -> bool:
    import httpx

    try:
        parts = urlsplit(url)
        httpx.URL(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except (ValueError, httpx.InvalidURL):
        return False


def _reason_of(error: Exception) -> str:
    return str(error) or type(error).__name__


def _place(url: str) -> str:
    """Return the address without what may be secret in it."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
    except ValueError:
        return "(no address)"
