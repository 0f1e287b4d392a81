"""Answers `GET /metrics` and `GET /healthz` on this machine, from the worker's event loop: no thread, no framework.

A foreign `Host` is refused, because a page in a browser could reach the port through a name of its own (DNS rebinding).
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from ao_runner.errors import RunnerError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

LOOPBACK: Final = "127.0.0.1"
REQUEST_SECONDS: Final = 5.0
MAX_HEAD_BYTES: Final = 16 * 1024
MOST_CONNECTIONS: Final = 8
"""At once, and as many that wait: each has a descriptor, of which runs need theirs. A further one ends the oldest."""
_HOST_LINE: Final = re.compile(rb"[ \t]*host[ \t]*:[ \t]*(.*?)[ \t]*", re.IGNORECASE | re.DOTALL)
_OWN_HOST: Final = re.compile(rb"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d*)?", re.IGNORECASE)


@dataclass(eq=False)
class CannotListen(RunnerError):
    """The port cannot be had."""

    port: int
    reason: str

    def __str__(self) -> str:
        return f"cannot serve metrics on {LOOPBACK}:{self.port}: {self.reason}; choose another --metrics-port, or 0"


@dataclass(frozen=True, slots=True)
class Exposition:
    """What is shown. `trouble` says in a sentence why no more runs should be expected to get on here, or None."""

    registry: "CollectorRegistry"
    trouble: Callable[[], str | None]
    _connections: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    @asynccontextmanager
    async def served(self, port: int) -> AsyncIterator[int]:
        """Serve inside the `with` block, on the loopback address only, and yield the port; 0 takes any free one.

        Raises:
            CannotListen: somebody else has it, or nobody may.
        """
        try:
            server = await asyncio.start_server(
                self._answer, LOOPBACK, port, limit=MAX_HEAD_BYTES, backlog=MOST_CONNECTIONS
            )
        except OSError as error:
            raise CannotListen(port, os.strerror(error.errno or 0)) from error
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for writer in self._connections.values():
                writer.transport.abort()
            await asyncio.gather(*self._connections)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "asyncio has made one for this connection"  # noqa: S101
        if len(self._connections) >= MOST_CONNECTIONS:
            self._connections.pop(next(iter(self._connections))).transport.abort()
        self._connections[task] = writer
        writer.transport.set_write_buffer_limits(0)  # to drain is then to hand over everything
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response(head))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            writer.transport.abort()  # whoever asks or listens like that gets no answer
        finally:
            self._connections.pop(task, None)
            writer.close()

    def _response(self, head: bytes) -> bytes:
        from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

        method, target, *_ = [*head.split(b"\r\n", 1)[0].split(b" "), b"", b""]
        status, kind, body = HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"there are /metrics and /healthz\n"
        path = target.partition(b"?")[0]
        hosts = [found[1] for line in head.split(b"\r\n")[1:] if (found := _HOST_LINE.fullmatch(line))]
        if hosts and not (len(hosts) == 1 and _OWN_HOST.fullmatch(hosts[0])):
            status, body = HTTPStatus.MISDIRECTED_REQUEST, b"foreign Host; ask for 127.0.0.1 or localhost\n"
        elif method not in {b"GET", b"HEAD"}:
            status, body = HTTPStatus.METHOD_NOT_ALLOWED, b"GET only\n"
        elif path == b"/metrics":
            status, kind, body = HTTPStatus.OK, CONTENT_TYPE_PLAIN_0_0_4, generate_latest(self.registry)
        elif path == b"/healthz":
            trouble = self.trouble()
            status = HTTPStatus.OK if trouble is None else HTTPStatus.SERVICE_UNAVAILABLE
            body = f"{trouble or 'working'}\n".encode()
        headers = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return headers.encode() + (b"" if method == b"HEAD" else body)
