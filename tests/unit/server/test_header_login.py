"""The login by a header of a proxy: of whom it is believed."""

import asyncio
import ipaddress
from typing import Any

import pytest

from ao_runner.connections import PEER, Message
from ao_server.gate import Gate, GatePolicy
from ao_server.header_login import HeaderLogin, HeaderRefused
from ao_server.who import Role, Who, name_of_sender

PROXY = "192.0.2.7"
LOGIN = HeaderLogin("x-user", "client", [ipaddress.ip_network("192.0.2.0/28")])
TOKENS: dict[Role, str] = {"reader": "a" * 32, "client": "b" * 32, "worker": "c" * 32}
ANNA = (b"X-User", b"anna")


@pytest.mark.parametrize("peer", [PROXY, f"::ffff:{PROXY}"])
def test_the_name_that_a_proxy_tells_is_the_login(peer: str) -> None:
    assert LOGIN.who([ANNA], peer) == Who("client", "anna", is_of_proxy=True)
    assert LOGIN.who([(b"x-user", "Ænne Ö".encode())], peer) == Who("client", "Ænne Ö", is_of_proxy=True)
    assert LOGIN.who([(b"x-user", b" ")], peer) is None
    assert LOGIN.who([(b"x-users", b"anna")], peer) is None


@pytest.mark.parametrize(
    ("headers", "peer", "told"),
    [
        ([ANNA], "192.0.2.77", "192.0.2.77 is none"),
        ([ANNA], "", "--proxy"),
        ([ANNA, (b"x-user", b"eve")], PROXY, "there 2 times"),
        ([(b"x-user", b"a\x1b[2Kb")], PROXY, "no name"),
        ([(b"x-user", b"\xff")], PROXY, "no name"),
        ([(b"x-user", b"a" * 201)], PROXY, "no name"),
    ],
    ids=["another peer", "no peer", "twice", "control characters", "no UTF-8", "long"],
)
def test_another_header_is_refused(headers: list[tuple[bytes, bytes]], peer: str, told: str) -> None:
    with pytest.raises(HeaderRefused, match=told):
        LOGIN.who(headers, peer)


def asked(peer: str | None, method: str = "POST", **headers: str) -> tuple[int, str, Any]:
    """Return the status of a request, the name of its sender inside, and the state of its scope."""
    seen: list[tuple[str, Any]] = []
    statuses: list[int] = []

    async def inside(scope: Message, _: Any, send: Any) -> None:
        seen.append((name_of_sender(), scope["state"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Message) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    written = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    scope: dict[str, Any] = {
        "type": "http", "method": method, "path": "/runs", "client": (PROXY, 1), "query_string": b"",
        "headers": written, **({} if peer is None else {PEER: (peer, 1)}),
    }  # fmt: skip
    gate = Gate(inside, GatePolicy(TOKENS, header_login=LOGIN))
    asyncio.run(gate(scope, asyncio.Event().wait, send))  # type: ignore[arg-type]  # no body
    name, state = seen[0] if seen else ("", None)
    return statuses[0], name, state


def test_the_gate_believes_the_peer_and_not_an_address_that_was_forwarded() -> None:
    status, name, state = asked(PROXY, x_user="anna")
    assert (status, name, state["role"]) == (200, "anna", "client")
    assert asked("198.51.100.1", x_user="anna")[0] == 403
    assert asked(PROXY)[0] == 401
    assert asked(PROXY, x_user="")[0] == 401


def test_a_token_goes_before_the_header_and_a_wrong_one_does_not() -> None:
    assert asked(PROXY, "GET", x_user="anna", authorization=f"Bearer {TOKENS['reader']}")[1:] == (
        "", {"role": "reader", "who": Who("reader")},
    )  # fmt: skip
    assert asked(PROXY, x_user="anna", authorization="Bearer of-the-proxy")[:2] == (200, "anna")
    assert asked(PROXY, x_user="anna", origin="https://evil.example")[0] == 403
