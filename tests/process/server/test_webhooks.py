"""Webhooks: each end of a run is sent, signed, at least once, whatever the receiver or the server does."""

import base64
import hashlib
import hmac
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest

from ao_runner.store.opening import StorePlace
from ao_runner.store.records import timestamp
from tests.postgres_server import PostgresServer
from tests.process.server.conftest import BOUND_SECONDS, EXAMPLES, Serve, Served, wait_for


@dataclass
class Receiver:
    """What an HTTP server in this process has received, and what it answers."""

    url: str = ""
    status: int = 204
    may_answer: Event = field(default_factory=Event)
    requests: list[tuple[Mapping[str, str], bytes]] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.requests]


@contextmanager
def receiving(port: int = 0, status: int = 204) -> Iterator[Receiver]:
    """Run a receiver on loopback. One whose `may_answer` is cleared never answers."""
    receiver = Receiver(status=status)
    receiver.may_answer.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
            receiver.may_answer.wait(BOUND_SECONDS)
            self.send_response(receiver.status)
            self.send_header("location", f"{receiver.url}/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a sender that was killed
        receiver.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield receiver
        finally:
            receiver.may_answer.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


def add_echo(server: Served) -> Served:
    server.add_agent(json.loads((EXAMPLES / "echo/blueprint.json").read_text()))
    return server


def add_webhook(server: Served, url: str) -> dict[str, Any]:
    answer = server.client.post("/webhooks", json={"url": url})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def echo(server: Served) -> str:
    """Start a run and return its id."""
    return str(server.start("echo", {"message": "Hi"})["run_id"])


def deliveries(server: Served, webhook: dict[str, Any]) -> list[dict[str, Any]]:
    path = f"/webhooks/{webhook['webhook_id']}/deliveries"
    return list(server.client.get(path).raise_for_status().json()["deliveries"])


def test_the_end_of_a_run_is_sent_signed(share: Serve, shared_store: str, receiver: Receiver) -> None:
    server = add_echo(share(store=shared_store))
    secret = add_webhook(server, f"{receiver.url}/hook?from=ao")["secret"]
    run_id = echo(server)
    wait_for(lambda: receiver.requests)
    ((headers, body),) = receiver.requests
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert headers["host"] == receiver.url.removeprefix("http://")
    message = json.loads(body)
    run = server.run(run_id)
    assert message["type"] == "run.ended"
    assert message["id"] == headers["webhook-id"] == f"{run_id}/1/{run['last_seq']}"
    assert message["run"].items() <= run.items()
    assert message["result"] == server.client.get(f"/runs/{run_id}/result").json()


def test_the_end_of_a_failed_and_of_a_stopped_run_says_why(share: Serve, receiver: Receiver) -> None:
    server = add_echo(share("--no-worker"))
    add_webhook(server, receiver.url)
    run_id = echo(server)
    server.client.post(f"/runs/{run_id}/stop").raise_for_status()
    wait_for(lambda: receiver.requests)
    message = json.loads(receiver.requests[0][1])
    assert message["run"]["status"] == "stopped"
    assert message["failure"]["type"] == "cancelled"
    assert "result" not in message


def test_a_webhook_hears_of_runs_of_the_command_line(share: Serve, receiver: Receiver) -> None:
    server = share("--no-worker")
    add_webhook(server, receiver.url)
    command = [sys.executable, "-m", "ao_runner", "run", "blueprint.json", "--param", "message=Hi"]
    folder, environ = EXAMPLES / "echo", {**os.environ, "AO_HOME": str(server.home), "AO_STORE": "local"}
    subprocess.run(command, cwd=folder, env=environ, check=True, capture_output=True, timeout=BOUND_SECONDS)
    wait_for(lambda: receiver.requests)
    assert json.loads(receiver.requests[0][1])["result"]["result_data"] == {"echo": ["Hi"], "tags": []}


def test_a_refused_message_is_sent_again_with_its_id(served: Served, receiver: Receiver) -> None:
    receiver.status = 500
    webhook = add_webhook(served, receiver.url)
    run_id = echo(served)
    (waiting,) = wait_for(lambda: [one for one in deliveries(served, webhook) if one["problem"]])
    assert waiting["run_id"] == run_id
    assert waiting["status"] == "waiting"
    assert waiting["problem"] == "the receiver answered 500"
    receiver.status = 200
    wait_for(lambda: deliveries(served, webhook) == [])
    assert len(receiver.ids) >= 2
    assert len(set(receiver.ids)) == 1


def test_a_dead_receiver_gets_its_messages_when_it_is_back(served: Served) -> None:
    with receiving() as gone:
        pass
    webhook = add_webhook(served, gone.url)
    runs = {echo(served) for _ in range(6)}
    wait_for(lambda: len([one for one in deliveries(served, webhook) if one["problem"]]) >= 4)
    assert {one["status"] for one in deliveries(served, webhook)} == {"waiting"}
    with receiving(int(gone.url.rpartition(":")[2])) as back:
        wait_for(lambda: deliveries(served, webhook) == [])
    assert {one.partition("/")[0] for one in back.ids} == runs


def test_a_redirect_is_not_followed(served: Served, receiver: Receiver) -> None:
    receiver.status = 307
    webhook = add_webhook(served, receiver.url)
    echo(served)
    wait_for(lambda: [one for one in deliveries(served, webhook) if one["problem"] == "the receiver answered 307"])


def test_a_slow_receiver_delays_no_other(served: Served, receiver: Receiver) -> None:
    with receiving() as slow:
        slow.may_answer.clear()
        webhook = add_webhook(served, slow.url)
        add_webhook(served, receiver.url)
        runs = {echo(served) for _ in range(8)}
        wait_for(lambda: {one.partition("/")[0] for one in receiver.ids} == runs)
        assert len(deliveries(served, webhook)) == len(runs)


def test_a_message_that_a_killed_server_was_sending_is_sent_again(
    serve: Serve, place: StorePlace, receiver: Receiver
) -> None:
    receiver.may_answer.clear()
    server = add_echo(serve(home=place.home / "home", store=place.url))
    webhook = add_webhook(server, receiver.url)
    echo(server)
    wait_for(lambda: receiver.requests)
    server.process.kill()
    server.process.wait()
    receiver.may_answer.set()
    again = serve(home=server.home, store=place.url)
    wait_for(lambda: deliveries(again, webhook) == [])
    assert len(receiver.ids) >= 2
    assert len(set(receiver.ids)) == 1


def test_a_message_is_given_up_after_three_days_and_may_be_sent_again(served: Served, receiver: Receiver) -> None:
    receiver.status = 500
    webhook = add_webhook(served, receiver.url)
    run_id = echo(served)
    wait_for(lambda: deliveries(served, webhook))
    with StorePlace(served.home).open() as store:
        store.write("UPDATE deliveries SET since = ?", (timestamp(datetime.now(UTC) - timedelta(days=4)),))
    wait_for(lambda: [one for one in deliveries(served, webhook) if one["status"] == "failed"])
    told = f"webhook {webhook['webhook_id']} is not told of the end of {run_id}: 'the receiver answered 500'"
    wait_for(lambda: f"ao: warning: {told}" in served.log)
    assert "is not told of its end" in served.client.get("/ui/inbox", headers={"accept": "text/html"}).text
    receiver.status = 200
    retry = f"/webhooks/{webhook['webhook_id']}/deliveries/{run_id}/retry"
    assert served.client.post(retry).status_code == 202
    wait_for(lambda: deliveries(served, webhook) == [])
    assert served.client.post(retry).status_code == 404


def test_two_servers_of_one_database_send_each_message_once(
    serve: Serve, postgres: PostgresServer, tmp_path: Path, receiver: Receiver
) -> None:
    url = postgres.new_database()
    servers = [serve(home=tmp_path / name, store=url) for name in ("one", "two")]
    add_echo(servers[0])
    webhook = add_webhook(servers[0], receiver.url)
    runs = [echo(servers[number % 2]) for number in range(12)]
    wait_for(lambda: len(receiver.ids) >= len(runs) and deliveries(servers[1], webhook) == [])
    assert sorted(one.partition("/")[0] for one in receiver.ids) == sorted(runs)


def test_a_webhook_hears_of_the_ends_between_its_creation_and_its_deletion(served: Served, receiver: Receiver) -> None:
    served.ended(echo(served))
    first = add_webhook(served, receiver.url)
    heard = echo(served)
    wait_for(lambda: receiver.requests)
    assert served.client.delete(f"/webhooks/{first['webhook_id']}").status_code == 204
    assert served.client.delete(f"/webhooks/{first['webhook_id']}").status_code == 404
    assert served.client.get(f"/webhooks/{first['webhook_id']}/deliveries").status_code == 404
    served.ended(echo(served))
    add_webhook(served, receiver.url)
    last = echo(served)
    wait_for(lambda: len(receiver.requests) >= 2)
    assert [one.partition("/")[0] for one in receiver.ids] == [heard, last]


def test_a_secret_is_shown_once(served: Served) -> None:
    made = add_webhook(served, "http://127.0.0.1:9/")
    own = f"whsec_{base64.b64encode(bytes(32)).decode()}"
    answer = served.client.post("/webhooks", json={"url": "http://127.0.0.1:9/", "secret": own})
    listed = served.client.get("/webhooks")
    assert all("secret" not in one for one in listed.json()["webhooks"])
    for text in (answer.text, listed.text, served.log):
        assert made["secret"] not in text
        assert own not in text


def test_a_webhook_that_cannot_be_served_is_refused(served: Served) -> None:
    urls = [
        "http://169.254.169.254/latest/meta-data",
        "http://[fe80::1]/",
        "ftp://127.0.0.1/",
        "http://user:password@127.0.0.1/",
        "http://no-such-host.invalid/",
        "http://127.0.0.1:99999/",
    ]
    bodies = [*({"url": url} for url in urls), {"url": "http://127.0.0.1/", "secret": "secret"}]
    answers = [served.client.post("/webhooks", json=body) for body in bodies]
    assert [answer.status_code for answer in answers] == [422] * len(bodies)
    errors = [answer.json()["code"] for answer in answers]
    assert errors == ["invalid_url"] * len(urls) + ["invalid_secret"]
    assert served.client.get("/webhooks").json()["webhooks"] == []


def test_a_server_for_others_sends_to_private_addresses_only_if_it_is_told_to(serve: Serve, tmp_path: Path) -> None:
    for more, expected in (((), 422), (("--private-webhooks",), 201)):
        server = serve("--host", "0.0.0.0", "--no-worker", *more, home=tmp_path / f"home{expected}")  # noqa: S104
        tokens = json.loads((server.home / "server/tokens.json").read_text())
        port = server.url.rpartition(":")[2]
        with ExitStack() as stack:
            clients = {
                role: stack.enter_context(
                    httpx.Client(
                        base_url=f"http://127.0.0.1:{port}",
                        headers={"authorization": f"Bearer {token}"},
                        trust_env=False,
                        timeout=BOUND_SECONDS,
                    )
                )
                for role, token in tokens.items()
            }
            assert clients["client"].post("/webhooks", json={"url": "http://127.0.0.1:9/"}).status_code == expected
            found = {role: client.get("/webhooks").status_code for role, client in clients.items()}
        assert found == {"client": 200, "reader": 403, "worker": 403}
