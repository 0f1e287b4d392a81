"""HTTP on the loopback interface: read a request, perform the reply, stop at any time.

The server makes no decisions. Every wait of a connection is a wait on its socket, so a shutdown of the socket ends the
wait. In this way `close` ends stalls, slow streams and idle connections alike.
"""

import contextlib
import json
import os
import re
import selectors
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Final

from pydantic import JsonValue

from ao_model_simulator.model_request import ModelRequest, redact_headers, redact_path
from ao_model_simulator.replies import Cut, Pause, Reply, Send, Stall, Step, json_reply

LOOPBACK: Final = "127.0.0.1"
BACKLOG: Final = 64
CLOSE_SECONDS: Final = 5.0
MAX_DEPTH: Final = 200
"""The levels of a body. A deeper one could be parsed, but not be recorded or shown any more."""
_OWN_HOST: Final = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d*)?", re.IGNORECASE)
_LETTER_OF_SEVERAL_BYTES: Final = re.compile(rb"[\xc2-\xf4]")

Respond = Callable[[ModelRequest], Reply]


class ClientLeft(ConnectionError):
    """The client, or `close` of this server, ended the connection."""


class CannotListen(OSError):
    """The port is taken or not allowed."""


class LoopbackServer(socketserver.BaseServer):
    """Serves each connection in its own thread until it is closed."""

    def __init__(self, respond: Respond, port: int = 0) -> None:
        """Bind and listen.

        Raises:
            CannotListen: The port is taken or not allowed. This is an `OSError`.
        """
        super().__init__((LOOPBACK, port), ConnectionHandler)
        self.respond = respond
        self.stopping = threading.Event()
        self._connections: dict[threading.Thread, socket.socket] = {}
        try:
            self._listener = socket.create_server((LOOPBACK, port), backlog=BACKLOG)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise CannotListen(f"cannot listen on {LOOPBACK}:{port}: {reason}") from error
        # A client may leave between `select` and `accept`, and `accept` must not wait for another one.
        self._listener.setblocking(False)
        self._port: int = self._listener.getsockname()[1]
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._acceptor = threading.Thread(target=self._accept, name="model-sim-accept", daemon=True)

    @property
    def url(self) -> str:
        """The address of the simulated APIs, without a path."""
        return f"http://{LOOPBACK}:{self._port}"

    def start(self) -> None:
        """Start to accept connections."""
        self._acceptor.start()

    def close(self) -> None:
        """Stop listening, end all connections, and wait at most `CLOSE_SECONDS` for their threads."""
        deadline = time.monotonic() + CLOSE_SECONDS
        self.stopping.set()
        self._wake_writer.close()
        self._acceptor.join(CLOSE_SECONDS)
        for connection in self._connections.values():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._connections:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _accept(self) -> None:
        with self._listener, self._wake_reader, selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._wake_reader, selectors.EVENT_READ)
            while not self.stopping.is_set():
                ready = {key.fileobj for key, _ in selector.select()}
                if self._listener in ready:
                    with contextlib.suppress(OSError):
                        self._serve(*self._listener.accept())

    def _serve(self, connection: socket.socket, client_address: object) -> None:
        connection.setblocking(True)
        thread = threading.Thread(
            target=self._serve_connection, args=(connection, client_address), name="model-sim-connection", daemon=True
        )
        thread.start()
        # A thread does not remove itself: `close` could then miss a thread that is about to end.
        alive = {known: it for known, it in self._connections.items() if known.is_alive()}
        self._connections = alive | {thread: connection}

    def _serve_connection(self, connection: socket.socket, client_address: object) -> None:
        with connection:
            with contextlib.suppress(ConnectionError):
                ConnectionHandler(connection, client_address, self)
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)


def _parsed(text: str) -> JsonValue:
    """Return the JSON of a body; the text if it is none, or nested deeper than a service accepts."""
    try:
        document: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return text
    level = [document]
    for _ in range(MAX_DEPTH):
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [each for values in inner for each in values]
    return text if level else document


class ConnectionHandler(BaseHTTPRequestHandler):
    """Reads the requests of one connection and performs the replies."""

    protocol_version = "HTTP/1.1"
    server_version = "model-sim"
    sys_version = ""
    disable_nagle_algorithm = True
    server: LoopbackServer

    def _serve(self) -> None:
        try:
            body = self._read_body()
        except ValueError:
            self.close_connection = True
            message = "model-sim: the length of the request's body cannot be read"
            self._perform(json_reply({"error": {"message": message}}, status=400))
            return
        if refusal := self._refuse_foreign():
            self._perform(refusal)
            return
        document: JsonValue = None
        if text := body.decode("utf-8", errors="replace"):
            document = _parsed(text)
        headers = redact_headers(dict(self.headers.items()))
        self._perform(self.server.respond(ModelRequest(self.command, redact_path(self.path), headers, document)))

    def _refuse_foreign(self) -> Reply | None:
        """Return the refusal of a request from a page of another site; None for any other request.

        A browser lets such a page reach this port, by a name of that site (DNS rebinding).
        """
        hosts, origins = ([text.strip() for text in self.headers.get_all(name, [])] for name in ("host", "origin"))
        if len(hosts) > 1 or not all(map(_OWN_HOST.fullmatch, hosts)):
            message = f"model-sim: foreign Host; ask for {self.server.url}"
            return json_reply({"error": {"message": message}}, status=HTTPStatus.MISDIRECTED_REQUEST)
        if not all(_OWN_HOST.fullmatch(origin.partition("://")[2]) for origin in origins):
            message = "model-sim: foreign Origin; only pages of this machine may ask"
            return json_reply({"error": {"message": message}}, status=HTTPStatus.FORBIDDEN)
        return None

    # The parent class looks its methods up by these names.
    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _serve  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the parent's
        """Write nothing: stdout and stderr belong to the program that started the simulator."""

    def _read_body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self._read(int(self.headers.get("content-length", "0")))
        chunks = []
        while size := int(self._read_line().partition(b";")[0], 16):
            chunks.append(self._read(size))
            self._read_line()
        while self._read_line().strip():
            pass
        return b"".join(chunks)

    def _read(self, size: int) -> bytes:
        """Return this number of bytes.

        Raises:
            ClientLeft: The stream has fewer bytes. An incomplete request is not recorded.
        """
        content = self.rfile.read(size)
        if len(content) < size:
            raise ClientLeft
        return content

    def _read_line(self) -> bytes:
        line = self.rfile.readline()
        if not line:
            raise ClientLeft
        return line

    def _perform(self, reply: Reply) -> None:
        if reply.delay_seconds:
            self._wait(reply.delay_seconds)
        is_chunked = reply.length is None and self.request_version == "HTTP/1.1"
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.length is not None:
            self.send_header("content-length", str(reply.length))
        elif is_chunked:
            self.send_header("transfer-encoding", "chunked")
        else:
            self.close_connection = True
        self.end_headers()
        if self.command == "HEAD":
            return
        for step in reply.steps:
            if not self._perform_step(step, is_chunked=is_chunked):
                self.close_connection = True
                return
        if is_chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _perform_step(self, step: Step, *, is_chunked: bool) -> bool:
        """Perform a step, and return whether the reply continues."""
        match step:
            case Send(payload):
                # Cut in the first character of several bytes, as a network may. A client must not decode single pieces.
                letter = _LETTER_OF_SEVERAL_BYTES.search(payload)
                for part in [payload[: letter.end()], payload[letter.end() :]] if letter else [payload]:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part)
            case Pause(seconds):
                self._wait(seconds)
            case Stall():
                self._wait(None)
            case Cut():
                return False
        return True

    def _wait(self, seconds: float | None) -> None:
        """Wait for this number of seconds; None has no limit.

        Raises:
            ClientLeft: The connection ended, or the server stopped, during the wait.
        """
        with selectors.DefaultSelector() as selector:
            selector.register(self.connection, selectors.EVENT_READ)
            if not selector.select(seconds):
                return
        if not self.connection.recv(1, socket.MSG_PEEK):
            raise ClientLeft
        # The client sent its next request before this reply, so its leaving can no longer be detected.
        if self.server.stopping.wait(seconds):
            raise ClientLeft
