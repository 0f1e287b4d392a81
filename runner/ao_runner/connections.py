"""Bounds of a web server that hold before it knows who asks: connections, times of heads and bodies, slow readers.

A connection is *kept* while a whole request is answered that the application has admitted, and its client reads. If
there are too many connections, the oldest that is not kept is closed, so silent or slow clients lock out nobody. Of
uvicorn this needs the callbacks of asyncio, the ASGI interface, and the attribute `app` of its protocol class.
"""

import asyncio
import logging
import math
import resource
import select
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

CLOSE: Final = (b"connection", b"close")
"""The header of the last answer on a connection."""
_ADMIT: Final = "ao.admit"
PEER: Final = "ao.peer"
"""The key of a scope whose value is the other end of the connection, whatever address a proxy forwards."""
MAX_HEAD_BYTES: Final = 64 * 1024
SLOWEST_BODY: Final = 64 * 1024
"""Bytes for which a body is given another second."""
WAITING: Final = 1024
"""Connections that the system holds until they are accepted."""
ACCEPTED_AT_ONCE: Final = 16
"""asyncio accepts as many before it hands over the first, so a few more than the maximum are open for a moment."""
SPARE_DESCRIPTORS: Final = 64 + 4 * ACCEPTED_AT_ONCE
"""Descriptors for the store, logs, pipes and outgoing connections, and for connections that are not counted yet."""
NEVER: Final = 10**6
"""Seconds after which uvicorn ends an idle connection. `head_seconds` do, and look first whether a request has come."""
_LATE_SECONDS: Final = 0.5
"""For a request that came in time while the event loop was busy."""
_REFUSAL: Final = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a server grants to clients.

    Args:
        connections: The maximum of connections.
        head_seconds: From the opened connection, or from the last answer, to the end of a request's head.
        body_seconds: For a body, beside a second for each `SLOWEST_BODY` of its bytes; and how long a client may read
            nothing of an answer.
    """

    connections: int
    head_seconds: float = 10.0
    body_seconds: float = 30.0


def fitting_connections(wanted: int) -> int:
    """Return for how many of the wanted connections this process has descriptors, after it has raised their limit."""
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
    return wanted if allowed == resource.RLIM_INFINITY else max(1, min(wanted, allowed - SPARE_DESCRIPTORS))


class BoundedConfig(uvicorn.Config):
    """The configuration of a server with bounds.

    Args:
        app: The ASGI application.
        bounds: The bounds.
        goodbye_seconds: How long a stop waits for requests.
        proxies: The addresses and networks of proxies. Only their `X-Forwarded-For` and `X-Forwarded-Proto` count.
    """

    def __init__(self, app: Application, bounds: Bounds, goodbye_seconds: int, proxies: Iterable[object] = ()) -> None:
        super().__init__(
            app, interface="asgi3", http=_Connection, ws="none", lifespan="off", backlog=ACCEPTED_AT_ONCE,
            log_config=None, access_log=False, server_header=False, h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_graceful_shutdown=goodbye_seconds, timeout_keep_alive=NEVER,
            forwarded_allow_ips=list(map(str, proxies)),
        )  # fmt: skip
        self.bounds = bounds
        self.unkept: dict[_Connection, None] = {}
        """The connections that are not kept, oldest first."""
        for name in ("asyncio", "uvicorn.error"):
            logging.getLogger(name).addFilter(_OnceASecond())


class BoundedServer(uvicorn.Server):
    """A server that accepts few connections at once, and lets the system hold the others."""

    config: BoundedConfig

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(WAITING)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Leave the clients that are slow, and wait for the answers to the others."""
        for connection in [one for one in self.config.unkept if not one.is_answered]:
            connection.reset()
        await super().shutdown(sockets)


class _Connection(H11Protocol):
    """One connection, and the request that it has now."""

    config: BoundedConfig
    _reading: asyncio.TimerHandle | None = None
    _writing: asyncio.TimerHandle | None = None
    _is_admitted = _has_rest = False
    _heard_at = -math.inf
    is_answered = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Wait for a request, and make room for it."""
        super().connection_made(transport)
        self._inside: Application = self.app
        self.app = self._answer
        transport.set_write_buffer_limits(0)  # so that each answer of which something is not read is noticed
        self._await_request()
        most = self.config.bounds.connections
        if len(self.connections) <= most:
            return
        self.logger.warning("%d connections are open, the maximum; the oldest without a request is closed", most)
        oldest = next(iter(self.config.unkept))
        del self.config.unkept[oldest]
        if oldest is self:  # all others are kept
            transport.write(_REFUSAL)
            transport.close()
        else:
            oldest.reset()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self.config.unkept.pop(self, None)
        self._read_within(math.inf)
        self._watch_reader(0)

    def data_received(self, data: bytes) -> None:
        """Read on."""
        self._heard_at = self.loop.time()
        super().data_received(data)

    def reset(self) -> None:
        """End the connection at once. Neither this process nor the system keeps what the client has not read."""
        at_once = struct.pack("ii", 1, 0)
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        self.transport.abort()

    def pause_writing(self) -> None:
        """Bound the time for which the client reads nothing."""
        super().pause_writing()
        self._watch_reader(self.transport.get_write_buffer_size())
        if self.is_answered:
            self._read_within(math.inf)
        self._sort()

    def resume_writing(self) -> None:
        """The client has read everything."""
        super().resume_writing()
        self._watch_reader(0)
        if self.is_answered:
            self._await_request()
        self._sort()

    def _await_request(self) -> None:
        self.is_answered, self._is_admitted = True, False
        if not self.transport.is_closing():
            self._read_within(self.config.bounds.head_seconds, self._give_up)
        self._sort()

    def _admit(self) -> None:
        self._is_admitted = True
        self._sort()

    def _sort(self) -> None:
        """Keep the connection, or keep it no longer."""
        if self._is_admitted and not self._has_rest and self._writing is None:
            self.config.unkept.pop(self, None)
        elif not self.transport.is_closing():
            self.config.unkept[self] = None

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        self.is_answered = False
        self._has_rest = any(
            name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0"))
            for name, value in scope["headers"]
        )
        until = self.loop.time() + self.config.bounds.body_seconds
        self._read_within(self.config.bounds.body_seconds if self._has_rest else math.inf)

        async def receive_some() -> Message:
            nonlocal until
            message = await receive()
            if self._has_rest and message["type"] == "http.request":
                self._has_rest = message.get("more_body", False)
                until += len(message.get("body", b"")) / SLOWEST_BODY
                self._read_within(until - self.loop.time() if self._has_rest else math.inf)
                self._sort()
            return message

        async def send_some(message: Message) -> None:
            if message["type"] == "http.response.start" and self._has_rest and CLOSE not in message["headers"]:
                message = {**message, "headers": [*message["headers"], CLOSE]}
            elif message["type"] == "http.response.body" and not message.get("more_body", False):
                self._await_request()  # before it is sent, since then the next request may begin
            await send(message)

        await self._inside({**scope, _ADMIT: self._admit, PEER: scope["client"]}, receive_some, send_some)

    def _read_within(self, seconds: float, end: Callable[[], None] | None = None) -> None:
        """End the connection unless this is called again within that time."""
        if self._reading is not None:
            self._reading.cancel()
        self._reading = None if seconds == math.inf else self.loop.call_later(seconds, end or self.reset)

    def _give_up(self) -> None:
        """End the connection, but wait a moment more for a head of which something has just come."""
        unread = select.poll()
        unread.register(self.transport.get_extra_info("socket"), select.POLLIN)
        if self.loop.time() - self._heard_at < _LATE_SECONDS or unread.poll(0):
            self._reading = self.loop.call_later(_LATE_SECONDS, self.reset)
        else:
            self.reset()

    def _watch_reader(self, unread: int) -> None:
        """End the connection if its client, of so many bytes, reads none for too long."""
        if self._writing is not None:
            self._writing.cancel()
        self._writing = self.loop.call_later(self.config.bounds.body_seconds, self._look, unread) if unread else None

    def _look(self, unread: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left < unread:
            self._watch_reader(left)
        else:
            self.reset()


def admit(scope: Message) -> None:
    """Let a request be answered: its connection is kept while the whole request is there and its client reads."""
    if _ADMIT in scope:
        scope[_ADMIT]()


def limited(receive: Receive, most: int) -> Receive:
    """Return how to receive a body of at most so many bytes. A longer one ends as if the sender had left."""
    size = 0

    async def receive_some() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        return {"type": "http.disconnect"} if size > most else message

    return receive_some


class _OnceASecond(logging.Filter):
    """Lets each place of a program write once a second, since anybody who can connect may cause what it writes."""

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[tuple[str, int], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written."""
        place, now = (record.pathname, record.lineno), time.monotonic()
        is_due = now >= self._next.get(place, 0)
        if is_due:
            self._next[place] = now + 1
        return is_due
