"""Who did it: tokens with names, and people whom a proxy has logged in, at a server."""

import json

import httpx
import pytest

from ao_server.gate import COOKIE
from ao_server.named_tokens import NamedTokens
from tests.process.runner.cli.calling import Ao
from tests.process.server.conftest import BOUND_SECONDS, Serve, Served, wait_for
from tests.process.server.test_inputs import runs_that_ask
from tests.process.server.test_mcp import over_http

HEADER_LOGIN = ("--login-header", "X-User", "--login-role", "client", "--proxy", "127.0.0.2")
PROXY = "127.0.0.2"
DENY = {"option_id": "deny"}


def with_token(server: Served, token: str) -> httpx.Client:
    bearer = {"authorization": f"Bearer {token}"}
    return httpx.Client(base_url=server.url, headers=bearer, timeout=BOUND_SECONDS, trust_env=False)


def through_proxy(server: Served, name: str) -> httpx.Client:
    transport = httpx.HTTPTransport(local_address=PROXY)
    return httpx.Client(
        base_url=server.url, headers={b"x-user": name.encode()}, timeout=BOUND_SECONDS, transport=transport
    )


async def test_actions_and_answers_name_who_did_them(serve: Serve) -> None:
    server = serve("--no-worker", *HEADER_LOGIN)
    tokens = NamedTokens(server.home)
    anna, otto = tokens.add("anna", "client"), tokens.add("otto", "client")
    with runs_that_ask(server.home) as asking, with_token(server, anna) as client:
        for number in (1, 2, 3):
            asking(f"run_{number}")
        assert client.post("/runs/run_1/inputs/call/1", json=DENY).status_code == 200
        with through_proxy(server, "Zoë Müller") as person:
            form = {"option_id": "deny"}
            assert person.post("/ui/runs/run_2/inputs/call/1", data=form).status_code == 303
            shown = person.get("/ui/inbox", headers={"accept": "text/html"}).text
            assert "Zoë Müller</span>" in shown
            assert "Log out" not in shown
        async with over_http(server.url, otto) as session:
            arguments = {"run_id": "run_3", "request_id": "call/1", **DENY}
            assert not (await session.call_tool("answer_waiting_request", arguments)).is_error
        answers = [client.get(f"/runs/run_{number}/inputs").json()["inputs"][0] for number in (1, 2, 3)]
        assert [one["answered_by"] for one in answers] == ["anna", "Zoë Müller", "otto"]
        late = client.post("/runs/run_2/inputs/call/1", json=DENY)
        assert late.json()["answered_by"] == "Zoë Müller"
        wait_for(lambda: len(client.get("/actions").json()["actions"]) == 3)
        actions = client.get("/actions?limit=2").json()
        assert [(one["role"], one["name"]) for one in actions["actions"]] == [("mcp", "otto"), ("client", "Zoë Müller")]
        (first,) = client.get(f"/actions?before={actions['next_before']}").json()["actions"]
        assert (first["role"], first["name"], first["what"]) == ("client", "anna", "POST /runs/run_1/inputs/call/1")
        assert "client anna" in client.get("/ui/actions", headers={"accept": "text/html"}).text


def test_a_header_of_another_peer_is_refused_with_the_rule_and_nobody_else_is_let_in(serve: Serve) -> None:
    server = serve("--no-worker", *HEADER_LOGIN)
    forged = server.client.get("/runs", headers={"x-user": "anna", "x-forwarded-for": PROXY})
    assert forged.status_code == 403
    assert "the header x-user is for proxies that --proxy names, and 127.0.0.1 is none" in forged.json()["detail"]
    assert server.client.get("/runs").status_code == 401
    with through_proxy(server, "") as nobody:
        assert nobody.get("/runs").status_code == 401
    with through_proxy(server, "anna") as person:
        assert person.get("/runs", headers={"x-forwarded-for": "203.0.113.9"}).status_code == 200
        assert person.post("/worker/leave", json={}).status_code == 403
    assert "ao: every user and agent of this machine can send x-user" in server.log


def test_a_named_token_is_made_and_removed_while_the_server_runs_and_ends_its_logins(serve: Serve) -> None:
    server = serve("--token", "--no-worker")
    ao = Ao(server.home.parent)

    def token_command(*arguments: str) -> str:
        called = ao("serve", "token", *arguments, AO_HOME=str(server.home))
        assert called.exit_code == 0, called.stderr
        return called.stdout

    token = token_command("add", "anna", "--role", "reader").strip()
    (listed,) = json.loads(token_command("list", "--json"))
    assert (listed["name"], listed["role"]) == ("anna", "reader")
    assert token not in token_command("list")
    with with_token(server, token) as client:
        assert client.get("/runs").status_code == 200
        assert client.post("/agents", json={}).status_code == 403
        cookie = client.post("/login", data={"token": token}).cookies[COOKIE]
        cookies = {"cookie": f"{COOKIE}={cookie}"}
        assert server.client.get("/login", headers=cookies).headers["location"] == "/ui/runs"
        page = server.client.get("/ui/runs", headers={**cookies, "accept": "text/html"})
        assert "anna</span>" in page.text
        token_command("remove", "anna")
        assert client.get("/runs").status_code == 401
        assert server.client.get("/runs", headers=cookies).status_code == 401
    assert token not in server.log


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--login-header", "X-User"], "--login-header needs --proxy ADDRESS"),
        (["--login-header", "Cookie", "--proxy", "192.0.2.1"], "expected a header as X-Forwarded-User"),
        (["--login-header", "X User", "--proxy", "192.0.2.1"], "expected a header as X-Forwarded-User"),
        (["--login-header", "X-User", "--proxy", "192.0.2.1", "--no-token"], "--no-token lets in everybody"),
        (["--home", "other", "token", "list"], "write --home behind `token add`"),
        (["token", "add", "anna"], "Missing option '--role'"),
    ],
)
def test_what_would_let_in_everybody_or_be_ignored_is_refused(ao: Ao, arguments: list[str], told: str) -> None:
    called = ao("serve", "--port", "0", *arguments) if "token" not in arguments else ao("serve", *arguments)
    assert called.exit_code == 2
    assert told in " ".join(called.stderr.split())


@pytest.fixture
def ao(tmp_path_factory: pytest.TempPathFactory) -> Ao:
    return Ao(tmp_path_factory.mktemp("ao"))
