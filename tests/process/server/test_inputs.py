"""Requests of runs to a person, by the API and by plain forms; a person answers, and an agent cannot."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from ao_runner.store.opening import StorePlace
from ao_runner.store.ownership import own_runs
from ao_runner.store.records import Run, Session, timestamp
from ao_runner.store.store import Store
from ao_server.gate import tokens_of
from tests.process.server.conftest import Serve, Served, wait_for

Asking = Callable[..., None]
HTML = {"accept": "text/html"}
OPTIONS = [
    {"id": "allow", "label": "Allow <once>", "effect": "allow"},
    {"id": "deny", "label": "Deny", "effect": "deny"},
]
HOSTILE = "rm -r /\u202e <script>1</script>\x1b[2K"
INPUT = {"command": HOSTILE}


def ask(store: Store, run_id: str, **more: Any) -> None:
    """Store a running run that asks, as its runner would."""
    store.sessions.add(Session(f"ses_{run_id}", timestamp(), "scripted", "scripted", "/", {"name": "cleaner"}))
    store.runs.begin(Run(run_id, f"ses_{run_id}", "start", {"prompt": "Clean"}, timestamp()), "owner")
    event = {
        "event_type": "input_requested",
        "session_id": f"ses_{run_id}",
        "run_id": run_id,
        "seq": 1,
        "timestamp": timestamp(),
        "request_id": "call/1",
        "kind": "permission",
        "title": "May Bash <b>run</b>?",
        "tool_input": INPUT,
        "options": OPTIONS,
        **more,
    }
    store.inputs.note(run_id, event)


@pytest.fixture
def server(share: Serve) -> Served:
    """A server that demands tokens."""
    return share("--no-worker", "--token")


def with_token(server: Served, role: str) -> httpx.Client:
    token = tokens_of(server.home)[role]  # type: ignore[index]  # one of its roles
    client = httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {token}"}, trust_env=False)
    client.timeout, client.event_hooks = httpx.Timeout(60), server.client.event_hooks
    return client


@contextmanager
def runs_that_ask(home: Path) -> Iterator[Asking]:
    """Yield what stores runs that ask, of an owner that lives."""
    with StorePlace(home).open() as store, own_runs(home) as owner:

        def run(run_id: str, **more: Any) -> None:
            ask(store, run_id, **more)
            store.write("UPDATE runs SET owner = ? WHERE run_id = ?", (owner, run_id))

        yield run


@pytest.fixture
def asking(server: Served) -> Iterator[Asking]:
    with runs_that_ask(server.home) as run:
        yield run


def test_the_first_answer_counts_and_the_second_hears_who_was_first(server: Served, asking: Asking) -> None:
    asking("run_1")
    with with_token(server, "client") as client:
        (waiting,) = client.get("/inputs").json()["inputs"]
        assert (waiting["run_id"], waiting["request_id"], waiting["tool_input"]) == ("run_1", "call/1", INPUT)
        address = "/runs/run_1/inputs/call/1"
        unfit = client.post(address, json={"option_id": "maybe"})
        assert unfit.status_code == 422
        assert "expected one of allow, deny" in unfit.json()["detail"]
        assert client.post(address, json={"option": "allow"}).status_code == 422
        assert client.post("/runs/run_1/inputs/call", json={"option_id": "deny"}).status_code == 404

        first = client.post(address, json={"option_id": "deny"})

        assert first.json() == {"request_id": "call/1", "outcome": "declined", "next_run_id": None}
        second = client.post(address, json={"option_id": "allow"})
        assert second.status_code == 409
        assert second.json()["answered_by"] == "a client of ao serve"
        assert client.get("/inputs").json() == {"inputs": []}
        (one,) = client.get("/runs/run_1/inputs").json()["inputs"]
        assert (one["option_id"], one["answered_by"], one["waiting"]) == ("deny", "a client of ao serve", False)


@pytest.mark.parametrize("role", ["reader", "worker"])
def test_who_is_no_client_sees_requests_and_cannot_answer(server: Served, asking: Asking, role: str) -> None:
    asking("run_1")
    with with_token(server, role) as client:
        assert len(client.get("/inputs").json()["inputs"]) == 1
        page = client.get("/ui/inbox", headers=HTML).text
        assert "May Bash" in page
        assert 'action="/ui/runs/run_1/inputs' not in page
        assert client.post("/runs/run_1/inputs/call/1", json={"option_id": "allow"}).status_code == 403
        assert client.post("/ui/runs/run_1/inputs/call/1", data={"option_id": "allow"}).status_code == 403


def test_a_form_answers_with_a_value_and_is_recorded(server: Served, asking: Asking) -> None:
    asking("run_1", schema={"type": "integer"}, tool_input=None)
    with with_token(server, "client") as client:
        unfit = client.post("/ui/runs/run_1/inputs/call/1", data={"value": "many"}, headers=HTML)
        assert unfit.status_code == 422
        assert "is not JSON" in unfit.text

        done = client.post("/ui/runs/run_1/inputs/call/1", data={"value": "7", "back": "/ui/inbox"}, headers=HTML)

        assert (done.status_code, done.headers["location"]) == (303, "/ui/inbox")
        action = wait_for_action(client).partition("POST /ui/runs/run_1/inputs/call/1")[0]
        assert "client" in action.rpartition("<tr")[2]
        late = client.post("/ui/runs/run_1/inputs/call/1", data={"value": "8"}, headers=HTML)
        assert late.status_code == 409
        assert "is not waiting any more" in late.text


def wait_for_action(client: httpx.Client) -> str:
    def look() -> str | None:
        page = client.get("/ui/actions", headers=HTML).text
        return page if "POST /ui/runs/run_1/inputs/call/1" in page else None

    return str(wait_for(look))


def test_hostile_text_of_a_request_is_shown_whole_and_does_nothing(server: Served, asking: Asking) -> None:
    asking("run_1", tool_input={"command": HOSTILE + "x" * 10_000 + "end"})
    with with_token(server, "client") as client:
        for path in ("/ui/inbox", "/ui/runs/run_1"):
            page = client.get(path, headers=HTML).text
            assert "<script>1" not in page
            assert "rm -r /⟨U+202E⟩ &lt;script&gt;1&lt;/script&gt;⟨U+001B⟩[2K" in page
            assert "x" * 10_000 + "end" in page
            assert "Allow &lt;once&gt;" in page
