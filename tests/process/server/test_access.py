"""Who may ask the server for what: tokens, roles, foreign pages, sizes and rates."""

import socket

import httpx

from ao_server.gate import MOST_WRONG_TOKENS, tokens_of
from tests.process.server.conftest import BOUND_SECONDS, Serve, Served


def ask(server: Served, method: str, path: str, **headers: str) -> httpx.Response:
    return server.client.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})


def test_each_role_may_do_what_it_is_for(serve: Serve) -> None:
    server = serve("--token", "--no-worker")
    tokens = tokens_of(server.home)
    calls = [("GET", "/runs"), ("POST", "/agents"), ("POST", "/worker/leave"), ("DELETE", "/sessions/none")]
    expected = {
        "reader": [200, 403, 403, 403],
        "client": [200, 422, 403, 404],
        "worker": [200, 403, 422, 404],
    }
    for role, statuses in expected.items():
        bearer = f"Bearer {tokens[role]}"  # type: ignore[index]  # a role
        assert [ask(server, *call, authorization=bearer).status_code for call in calls] == statuses, role
    assert ask(server, "GET", "/runs").status_code == 401
    assert ask(server, "GET", "/health").status_code == 200
    assert (server.home / "server/tokens.json").stat().st_mode & 0o777 == 0o600
    assert not any(token in server.log for token in tokens.values())


def test_an_encoded_slash_in_an_id_lends_nobody_a_role(serve: Serve) -> None:
    server = serve("--token", "--no-worker")
    tokens = tokens_of(server.home)
    for path in (
        "/sessions/a%2Fb/bind",
        "/sessions/a%2fb/events",
        "/sessions/a%2Fb%2Fc/bind",
        "/sessions/a%252Fb/bind",
    ):
        assert ask(server, "POST", path, authorization=f"Bearer {tokens['client']}").status_code == 403, path
        assert ask(server, "POST", path, authorization=f"Bearer {tokens['worker']}").status_code == 422, path
    for path in ("/runs/r/inputs/a%2Fb", "/runs/r%2Fs/inputs/a"):
        assert ask(server, "POST", path, authorization=f"Bearer {tokens['worker']}").status_code == 403, path
    for path in ("/worker%2Fjoin", "/webhooks%2Fx", "/%2Fworker/join"):
        assert ask(server, "POST", path, authorization=f"Bearer {tokens['reader']}").status_code == 403, path


def test_wrong_tokens_are_limited_and_right_ones_are_not(serve: Serve) -> None:
    server = serve("--token", "--no-worker")
    wrong = [ask(server, "GET", "/runs", authorization="Bearer wrong") for _ in range(MOST_WRONG_TOKENS + 1)]
    assert [answer.status_code for answer in wrong] == [401] * MOST_WRONG_TOKENS + [429]
    assert 1 <= int(wrong[-1].headers["retry-after"]) <= 60
    assert server.client.post("/login", data={"token": "wrong"}).status_code == 429
    right = f"Bearer {tokens_of(server.home)['reader']}"
    assert ask(server, "GET", "/runs", authorization=right).status_code == 200


def test_a_foreign_page_reaches_nothing(share: Serve) -> None:
    server = share("--no-worker")
    assert ask(server, "GET", "/runs", host="evil.example").status_code == 403
    assert ask(server, "POST", "/schemas", origin="https://evil.example").status_code == 403
    assert ask(server, "POST", "/schemas", sec_fetch_site="cross-site").status_code == 403
    assert ask(server, "POST", "/schemas", origin=server.url).status_code == 422
    assert "content-security-policy" in ask(server, "GET", "/runs").headers


def test_a_large_body_is_refused_before_it_is_read(share: Serve) -> None:
    server = share("--no-worker")
    with socket.create_connection(("127.0.0.1", server.port), timeout=BOUND_SECONDS) as connection:
        head = f"POST /agents HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {10**9}\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")
