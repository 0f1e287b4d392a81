"""What a server grants to clients before it knows them: connections, time for heads and bodies, and slow readers."""

import json
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from ao_server.gate import tokens_of
from tests.process.server.conftest import BOUND_SECONDS, Serve, Served, wait_for

DESCRIPTORS = 256
CONNECTIONS = 300
HEALTH_SECONDS = 30
"""For an answer to others, whatever those connections do; it takes a fraction of a second on an idle machine."""


def head(server: Served, method: str, path: str, *fields: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{server.port}", *fields]
    return "".join(f"{line}\r\n" for line in lines).encode()


def connect(server: Served, sent: bytes = b"") -> socket.socket:
    connection = socket.socket()
    connection.settimeout(BOUND_SECONDS)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # so that few answers fill it
    connection.connect(("127.0.0.1", server.port))
    connection.sendall(sent)
    return connection


def is_closed(connection: socket.socket) -> bool:
    """Return whether the server has closed a connection, without reading from it."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


FORM = "Content-Type: application/x-www-form-urlencoded"
BEGINNINGS: dict[str, Callable[[Served], bytes]] = {
    "nothing": lambda _: b"",
    "one byte": lambda _: b"G",
    "half a head": lambda server: head(server, "GET", "/runs"),
    "half a body of a login": lambda server: head(server, "POST", "/login", FORM, "Content-Length: 9", "") + b"token",
    "a login without end": lambda server: (
        head(server, "POST", "/login", FORM, "Transfer-Encoding: chunked", "") + b"5\r\ntoken\r\n"
    ),
    "a large body without a token": lambda server: head(server, "POST", "/runs", "Content-Length: 30000000", ""),
    "an answered request": lambda server: head(server, "GET", "/health", ""),
    "unread answers": lambda server: head(server, "GET", "/static/htmx.min.js", "") * 20,
    "a TLS hello": lambda _: b"\x16\x03\x01\x00\xf8\x01\x00\x00\xf4\x03\x03" + bytes(range(100)),
    "a web socket": lambda server: head(
        server, "GET", "/health", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", ""
    ),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that demands tokens and may open few files."""
    with Served(tmp_path_factory.mktemp("small") / "home", ("--token", "--no-worker"), descriptors=DESCRIPTORS) as one:
        yield one


def test_the_bound_on_connections_fits_the_descriptors_and_the_start_says_so(small: Served) -> None:
    assert "ao: at most 128 connections at a time instead of 2000; raise the limit of open files" in small.log


@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS.keys())
def test_clients_that_do_not_finish_lock_out_nobody(small: Served, beginning: Callable[[Served], bytes]) -> None:
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            connection = stack.enter_context(connect(small))
            connection.setblocking(False)
            connection.send(beginning(small))
        for headers in ({}, {"authorization": f"Bearer {tokens_of(small.home)['reader']}"}):
            path = "/runs" if headers else "/health"
            answer = httpx.get(small.url + path, headers=headers, timeout=HEALTH_SECONDS, trust_env=False)
            assert answer.status_code == 200
    assert small.process.poll() is None
    assert len(small.log.splitlines()) < 100
    assert "Traceback" not in small.log


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that asks for no token and gives a second for heads and bodies."""
    options = ("--no-worker", "--head-seconds", "1", "--body-seconds", "1")
    with Served(tmp_path_factory.mktemp("hasty") / "home", options) as one:
        yield one


@pytest.mark.parametrize(
    "beginning",
    [
        pytest.param(lambda server: head(server, "GET", "/health", "X-Trickles: "), id="head"),
        pytest.param(lambda server: head(server, "GET", "/health", "") + b"GET /", id="second head"),
        pytest.param(lambda server: head(server, "POST", "/agents", "Content-Length: 9999", ""), id="body"),
        pytest.param(lambda server: head(server, "DELETE", "/runs/x", "Content-Length: 9999", ""), id="unread body"),
    ],
)
def test_a_request_that_trickles_is_ended(hasty: Served, beginning: Callable[[Served], bytes]) -> None:
    with connect(hasty, beginning(hasty)) as connection:

        def trickle() -> bool:
            try:
                connection.send(b"a")
            except ConnectionError:
                return True
            return is_closed(connection)

        assert wait_for(trickle)


def test_a_client_that_reads_nothing_of_its_answers_is_left(hasty: Served) -> None:
    with connect(hasty, head(hasty, "GET", "/openapi.json", "") * 100) as connection:
        assert wait_for(lambda: is_closed(connection))


@pytest.mark.parametrize(
    "beginning",
    [
        pytest.param(lambda server: head(server, "GET", "/health", ""), id="idle"),
        pytest.param(lambda server: head(server, "POST", "/agents", "Content-Length: 9", ""), id="no body"),
    ],
)
def test_a_connection_on_which_nothing_comes_is_ended(hasty: Served, beginning: Callable[[Served], bytes]) -> None:
    with connect(hasty, beginning(hasty)) as connection:
        assert wait_for(lambda: is_closed(connection))


def test_long_answers_are_not_cut(hasty: Served) -> None:
    hasty.add_agent(json.loads((Path(__file__).parents[3] / "docs/examples/echo/blueprint.json").read_text()))
    run = hasty.start("echo", {"message": "Hi"})
    with hasty.client.stream("GET", f"/runs/{run['run_id']}/stream") as stream:
        begun = time.monotonic()
        assert hasty.client.get(f"/runs/{run['run_id']}?wait=3").json()["status"] == "pending"
        assert time.monotonic() - begun > 2.5
        hasty.client.post(f"/runs/{run['run_id']}/stop").raise_for_status()
        list(stream.iter_lines())  # fails if it was cut


def test_a_refused_request_is_answered_without_its_body_and_closed(small: Served) -> None:
    with connect(small, head(small, "POST", "/runs", "Content-Length: 30000000", "Expect: 100-continue", "")) as one:
        answer = b""
        while part := one.recv(4096):
            answer += part
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"connection: close" in answer


def test_a_login_has_a_small_body(small: Served) -> None:
    answer = small.client.post("/login", data={"token": "a" * 100_000})
    assert (answer.status_code, answer.headers["connection"]) == (413, "close")


def test_a_slow_body_is_taken_while_it_comes_fast_enough(hasty: Served) -> None:
    body = json.dumps({"name": "big", "x": "a" * 400_000}).encode()
    with connect(hasty, head(hasty, "POST", "/agents/check", f"Content-Length: {len(body)}", "")) as connection:
        for start in range(0, len(body), 100_000):
            connection.sendall(body[start : start + 100_000])
            select.select([connection], [], [], 0.5)
        assert connection.recv(4096).startswith(b"HTTP/1.1 ")


def test_a_server_full_of_kept_streams_refuses_others_at_once(tmp_path: Path, serve: Serve) -> None:
    server = serve("--no-worker", "--max-connections", "3")
    server.add_agent(json.loads((Path(__file__).parents[3] / "docs/examples/echo/blueprint.json").read_text()))
    run = server.start("echo", {"message": "Hi"})
    server.client.close()
    with ExitStack() as stack:
        for _ in range(3):
            stream = httpx.stream("GET", f"{server.url}/runs/{run['run_id']}/stream", timeout=BOUND_SECONDS)
            assert stack.enter_context(stream).status_code == 200
        assert httpx.get(f"{server.url}/health", timeout=BOUND_SECONDS).status_code == 503
    assert wait_for(lambda: httpx.get(f"{server.url}/health", timeout=BOUND_SECONDS).status_code == 200)
