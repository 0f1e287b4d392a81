"""One HTTP request and the bytes that come back, waited for like everything else in a run."""

import re
import socket
from collections.abc import Iterator, Mapping
from typing import Self

from watch import IN, OUT, Watch

URL = re.compile(r"http://(?P<host>[^/:]+|\[[^\]]+\])(?::(?P<port>\d+))?(?P<path>/[^?#]*)?")
CHUNK_BYTES = 64 * 1024
MAX_HEAD_BYTES = 64 * 1024


class ConnectionCut(Exception):
    """The server could not be reached, or left before it had said everything."""


class HttpExchange:
    """A connection for one request: `send`, then `head`, then `chunks`."""

    def __init__(self, watch: Watch, url: str, phase: str) -> None:
        parts = URL.fullmatch(url.rstrip("/") or url)
        if parts is None:
            raise ConnectionCut(f"{url!r} is no address that is served here; use http://host:port")
        self._watch, self._phase = watch, phase
        self._host, self._port = parts["host"].strip("[]"), int(parts["port"] or 80)
        self.path = parts["path"] or ""
        self._unread = b""
        self._socket = socket.socket()
        self._headers: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> None:
        """Connect and send the whole request."""
        self._connect()
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}:{self._port}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"Content-Length: {len(body)}", "", ""]
        view = memoryview("\r\n".join(lines).encode() + body)
        while view:
            self._watch.attend({self._socket.fileno(): OUT}, self._phase)
            try:
                view = view[self._socket.send(view[:CHUNK_BYTES]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise ConnectionCut(f"the connection broke: {error}") from None

    def head(self) -> tuple[int, dict[str, str]]:
        """Return the status and the headers, whose names are in lower case."""
        while b"\r\n\r\n" not in self._unread:
            if len(self._unread) > MAX_HEAD_BYTES or not self._fill():
                raise ConnectionCut("the server left without an answer")
        head, self._unread = self._unread.split(b"\r\n\r\n", 1)
        status_line, *lines = head.decode("latin-1").split("\r\n")
        pairs = [line.partition(":") for line in lines]
        self._headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        status = status_line.split(" ")[1:2]
        if not status or not status[0].isdecimal():
            raise ConnectionCut(f"the server does not speak HTTP: {status_line[:80]!r}")
        return int(status[0]), self._headers

    def chunks(self) -> Iterator[bytes]:
        """Yield the body as it comes, up to its end or that of the connection."""
        if "chunked" in self._headers.get("transfer-encoding", ""):
            yield from self._chunked()
            return
        left = int(self._headers.get("content-length", 2**62))
        while left > 0 and (self._unread or self._fill()):
            chunk, self._unread = self._unread[:left], self._unread[left:]
            left -= len(chunk)
            yield chunk

    def _chunked(self) -> Iterator[bytes]:
        while True:
            while b"\r\n" not in self._unread:
                if not self._fill():
                    return
            size, self._unread = self._unread.split(b"\r\n", 1)
            left = int(size.split(b";")[0], 16)
            if left == 0:
                return
            while left > 0:
                if not self._unread and not self._fill():
                    return
                chunk, self._unread = self._unread[:left], self._unread[left:]
                left -= len(chunk)
                yield chunk
            while len(self._unread) < 2:
                if not self._fill():
                    return
            self._unread = self._unread[2:]

    def _connect(self) -> None:
        try:
            family, _, _, _, address = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)[0]
        except OSError as error:
            raise ConnectionCut(f"{self._host} has no address: {error}") from None
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.connect_ex(address)
        self._watch.attend({self._socket.fileno(): OUT}, self._phase)
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise ConnectionCut(f"{self._host}:{self._port} cannot be reached (error {code})")

    def _fill(self) -> bool:
        self._watch.attend({self._socket.fileno(): IN}, self._phase)
        try:
            chunk = self._socket.recv(CHUNK_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            chunk = b""
        self._unread += chunk
        return bool(chunk)
