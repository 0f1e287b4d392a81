"""The gate as an application: whose requests it counts together."""

import asyncio
from typing import Any, get_args

from ao_runner.connections import Message
from ao_server.gate import MOST_REQUESTS, Gate, GatePolicy, may
from ao_server.who import Role

TOKEN = "a" * 32


async def inside(_: Message, __: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def status_of(gate: Gate, token: str) -> int:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/runs", "client": ("192.0.2.1", 1)}
    await gate({**scope, "headers": headers, "query_string": b""}, asyncio.Event().wait, send)  # type: ignore[arg-type]  # no body
    return int(sent[0]["status"])


def test_a_request_with_a_token_is_answered_while_others_from_its_address_are_too_many() -> None:
    gate = Gate(inside, GatePolicy({"reader": TOKEN, "client": "b" * 32, "worker": "c" * 32}))

    async def story() -> None:
        others = [await status_of(gate, "") for _ in range(2 * MOST_REQUESTS)]
        assert set(others) == {401, 429}
        assert await status_of(gate, TOKEN) == 200
        assert 429 in [await status_of(gate, "") for _ in range(2 * MOST_REQUESTS)]

    asyncio.run(story())


def test_only_clients_see_where_events_are_sent() -> None:
    for path in ("/webhooks", "/ui/webhooks", "/ui/webhooks/whk_1/delete"):
        assert [role for role in get_args(Role) if may(role, "GET", path)] == ["client"]
