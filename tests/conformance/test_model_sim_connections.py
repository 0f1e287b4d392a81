"""The simulator's connections: whatever a client does or a script holds back, all of them end.

Raw sockets, because the clients here misbehave.
"""

import json
import socket
import threading
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from ao_model_simulator import ModelSimulator, Script

STREAMED = {"model": "m", "max_tokens": 10, "stream": True, "messages": [{"role": "user", "content": "Hello?"}]}
WAIT_SECONDS = 100.0
"""Longer than anything here takes; a test that needs it has failed."""


FOREVER = 3600
HANGING: dict[str, dict[str, Any]] = {
    "stall": {"stall": True},
    "stall in the content": {"text": "Hello.", "stall_after_chars": 2},
    "long delay": {"text": "Hello.", "delay_seconds": FOREVER},
    "long pause": {"text": "Hello.", "chunk_delay_seconds": FOREVER},
    "more than the client reads": {"text": "0123456789abcdef", "text_times": 1_000_000},
}


def simulate(*answers: dict[str, Any]) -> ModelSimulator:
    return ModelSimulator(Script.from_answers(answers))


def simulator_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("model-sim")]


def test_a_length_that_is_no_number_is_refused() -> None:
    with simulate({"text": "x"}) as sim, open_socket(sim) as client:
        client.sendall(b"POST /v1/messages HTTP/1.1\r\nContent-Length: many\r\n\r\n")
        assert read_to_end(client).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"Content-Length: 100\r\n\r\n" + b'{"model":', id="length"),
        pytest.param(b"Transfer-Encoding: chunked\r\n\r\n9\r\n" + b'{"model":', id="chunks"),
        pytest.param(b"Transfer-Encoding: chunked\r\n\r\n20\r\n" + b'{"model":', id="within a chunk"),
    ],
)
def test_a_request_whose_client_leaves_within_it_is_none(sent: bytes) -> None:
    with simulate({"text": "x"}) as sim:
        with open_socket(sim) as client:
            client.sendall(b"POST /v1/messages HTTP/1.1\r\n" + sent)
            client.shutdown(socket.SHUT_WR)
            assert read_to_end(client) == b""
        assert sim.all_requests == ()


def test_a_client_of_http_1_0_gets_a_stream_without_chunks() -> None:
    body = json.dumps(STREAMED).encode()
    with simulate({"text": "Hello."}) as sim, open_socket(sim) as client:
        client.sendall(b"POST /v1/messages HTTP/1.0\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        received = read_to_end(client)
        assert received.endswith(b'{"type": "message_stop"}\n\n')
        assert b"chunked" not in received


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("Host: LOCALHOST:80\r\nOrigin: http://localhost:5173\r\n", 200),
        ("Host: [::1]:80\r\nOrigin: http://127.0.0.1\r\n", 200),
        ("", 200),
        ("Host: evil.example\r\n", 421),
        ("Host: 127.0.0.1.evil.example:80\r\n", 421),
        ("Host: localhost\r\nHost: evil.example\r\n", 421),
        ("Host: localhost\r\nOrigin: https://evil.example\r\n", 403),
        ("Host: localhost\r\nOrigin: http://localhost.evil.example\r\n", 403),
        ("Host: localhost\r\nOrigin: null\r\n", 403),
    ],
)
@pytest.mark.parametrize("start", ["GET /_sim/requests", "POST /v1/messages"])
def test_a_page_of_another_site_learns_nothing_and_uses_no_answer(start: str, headers: str, status: int) -> None:
    body = b"" if start.startswith("GET") else json.dumps(STREAMED).encode()
    with simulate({"text": "x"}) as sim, open_socket(sim) as client:
        head = f"{start} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        assert read_to_end(client).startswith(f"HTTP/1.1 {status} ".encode())
        assert len(sim.all_requests) == (1 if body and status == 200 else 0)


def test_one_can_wait_for_the_model_to_be_asked() -> None:
    with simulate({"stall": True}) as sim:
        assert not sim.wait_for_requests(1, timeout_seconds=0.01)
        with open_socket(sim, STREAMED):
            assert sim.wait_for_requests(1, timeout_seconds=WAIT_SECONDS)


@pytest.mark.parametrize("answer", HANGING.values(), ids=HANGING.keys())
def test_closing_ends_every_answer_at_once_and_leaves_no_thread(answer: dict[str, Any]) -> None:
    sim = simulate(answer)
    with sim:
        client = open_socket(sim, STREAMED)
        idle = open_socket(sim)
        assert sim.wait_for_requests(1, WAIT_SECONDS)
        began = time.monotonic()
    assert time.monotonic() - began < 1
    assert simulator_threads() == []
    client.close()
    idle.close()


@pytest.mark.parametrize("answer", HANGING.values(), ids=HANGING.keys())
def test_a_client_that_leaves_frees_its_thread(answer: dict[str, Any]) -> None:
    with simulate(answer) as sim:
        with open_socket(sim, STREAMED):
            assert sim.wait_for_requests(1, WAIT_SECONDS)
        for thread in threading.enumerate():
            if thread.name == "model-sim-connection":
                thread.join(WAIT_SECONDS)
        assert simulator_threads() == ["model-sim-accept"]


def test_a_client_that_has_sent_its_next_request_is_still_freed_by_closing() -> None:
    sim = simulate({"stall": True})
    with sim:
        client = open_socket(sim, STREAMED)
        assert sim.wait_for_requests(1, WAIT_SECONDS)
        client.sendall(b"POST ")
    assert simulator_threads() == []
    client.close()


def test_only_the_loopback_address_is_bound() -> None:
    with simulate({"text": "x"}) as sim:
        assert urlsplit(sim.url).hostname == "127.0.0.1"
        port = urlsplit(sim.url).port
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", port or 0), timeout=WAIT_SECONDS)


def test_a_simulator_that_does_not_listen_has_no_address() -> None:
    with pytest.raises(RuntimeError, match="inside its with block"):
        _ = simulate({"text": "x"}).url


def open_socket(sim: ModelSimulator, body: object = None) -> socket.socket:
    """Connect and, where there is a body, ask without reading the answer."""
    address = urlsplit(sim.url)
    client = socket.create_connection((address.hostname, address.port or 0), timeout=WAIT_SECONDS)
    if body is not None:
        payload = json.dumps(body).encode()
        head = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(payload)
        client.sendall(head + payload)
    return client


def read_to_end(client: socket.socket) -> bytes:
    received = b""
    while chunk := client.recv(65536):
        received += chunk
    return received
