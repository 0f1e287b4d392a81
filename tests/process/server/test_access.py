"""Who may ask the server for what: tokens, roles, foreign pages, sizes and rates."""

import json
import socket
from pathlib import Path

import httpx
import pytest

from ao_server.gate import COOKIE, MOST_WRONG_TOKENS, tokens_of
from tests.process.server.conftest import BOUND_SECONDS, Serve, Served


def ask(server: Served, method: str, path: str, **headers: str) -> httpx.Response:
    return server.client.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})


def test_each_role_may_do_what_it_is_for(share: Serve) -> None:
    server = share("--token", "--no-worker")
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


def test_an_encoded_slash_in_an_id_lends_nobody_a_role(share: Serve) -> None:
    server = share("--token", "--no-worker")
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


def test_wrong_tokens_are_limited_and_lock_out_nobody_who_has_a_right_one(serve: Serve) -> None:
    server = serve("--token", "--no-worker")
    wrong = [ask(server, "GET", "/runs", authorization="Bearer wrong") for _ in range(MOST_WRONG_TOKENS + 1)]
    assert [answer.status_code for answer in wrong] == [401] * MOST_WRONG_TOKENS + [429]
    assert 1 <= int(wrong[-1].headers["retry-after"]) <= 60
    limited = server.client.post("/login", data={"token": "wrong"})
    assert limited.status_code == 429
    assert 1 <= int(limited.headers["retry-after"]) <= 60
    right = tokens_of(server.home)["reader"]
    assert ask(server, "GET", "/runs", authorization=f"Bearer {right}").status_code == 200
    assert ask(server, "GET", "/ui/runs", accept="text/html").headers["location"] == "/login?back=/ui/runs"
    assert server.client.post("/login", data={"token": right}).status_code == 303
    assert ask(server, "GET", "/ui/runs").status_code == 200


@pytest.mark.parametrize("given", ["Bearer", "Bearer None", "bearer null", "Basic Og==", ""])
def test_an_empty_token_is_none(share: Serve, given: str) -> None:
    server = share("--token", "--no-worker")
    assert ask(server, "GET", "/runs", authorization=given).status_code == 401
    for cookie in ("", "0" * 64, "../tokens.json"):
        assert ask(server, "GET", "/runs", cookie=f"{COOKIE}={cookie}").status_code == 401
    assert server.client.post("/login", data={"token": ""}).status_code in {401, 429}


def test_a_log_out_ends_the_login_on_the_server_and_a_restart_does_not(serve: Serve, tmp_path: Path) -> None:
    def status(server: Served, cookie: str) -> int:
        with httpx.Client(base_url=server.url, timeout=BOUND_SECONDS, cookies={COOKIE: cookie}) as client:
            return client.get("/runs").status_code

    def log_in(server: Served) -> str:
        answer = server.client.post("/login", data={"token": tokens_of(server.home)["client"]})
        server.client.cookies.clear()
        return str(answer.cookies[COOKIE])

    with Served(tmp_path / "home", ("--token", "--no-worker")) as first:
        ended, kept = log_in(first), log_in(first)
        assert [status(first, cookie) for cookie in (ended, kept)] == [200, 200]
        assert ask(first, "POST", "/logout", cookie=f"{COOKIE}={ended}").status_code == 303
        assert [status(first, cookie) for cookie in (ended, kept)] == [401, 200]
        written = [path.name + path.read_text() for path in (first.home / "server/logins").iterdir()]
        assert len(written) == 1
        assert not any(secret in written[0] for secret in (kept, *tokens_of(first.home).values()))
    with Served(tmp_path / "home", ("--token", "--no-worker")) as second:
        assert [status(second, cookie) for cookie in (ended, kept)] == [401, 200]
    (tmp_path / "home/server/tokens.json").unlink()
    third = serve("--token", "--no-worker", home=tmp_path / "home")
    assert status(third, kept) == 401


@pytest.mark.parametrize(
    ("options", "statuses"),
    [([], {429}), (["--proxy", "127.0.0.1"], {401}), (["--proxy", "192.0.2.0/24"], {429})],
    ids=["no proxy", "its proxy", "another proxy"],
)
def test_a_forwarded_address_counts_only_behind_a_named_proxy(
    serve: Serve, options: list[str], statuses: set[int]
) -> None:
    server = serve("--token", "--no-worker", *options)
    bearer = {"authorization": "Bearer wrong"}
    for number in range(MOST_WRONG_TOKENS):
        ask(
            server, "GET", "/runs", **bearer, x_forwarded_for=f"203.0.113.{number}", forwarded=f"for=203.0.113.{number}"
        )
    assert {ask(server, "GET", "/runs", **bearer, x_forwarded_for="203.0.113.99").status_code} == statuses


def test_a_server_does_not_start_with_tokens_that_let_somebody_in(tmp_path: Path) -> None:
    path = tmp_path / "home/server/tokens.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"reader": "", "client": None, "worker": "x"}))
    path.chmod(0o600)
    with pytest.raises(AssertionError, match="the server ended with 2: Error: cannot use the tokens of") as ended:
        Served(tmp_path / "home", ("--token", "--no-worker")).__enter__()
    assert "Traceback" not in str(ended.value)


@pytest.mark.parametrize(("option", "says"), [("--no-token", "every user of this machine can"), ("--token", "whoever")])
def test_the_start_says_who_can_run_any_program(share: Serve, option: str, says: str) -> None:
    assert f"ao: {says}" in share(option, "--no-worker").log


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
