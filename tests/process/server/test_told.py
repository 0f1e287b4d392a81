"""People are told that a run asks, that one failed, that a profile is paused and that a host is lost: once each."""

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from ao_runner.store.deliveries import Webhook
from ao_runner.store.limit_table import RunLimit
from ao_runner.store.notices import Notice
from ao_runner.store.opening import StorePlace
from ao_runner.store.ownership import REMOTE
from ao_runner.store.store import Store
from ao_runner.store.worker_table import Offer
from ao_server.announcements import announce_lost, announce_untold
from ao_server.messages import chat_text
from ao_server.notifying import Notifier
from ao_server.store_access import StoreAccess
from tests.process.runner.test_inputs_in_stores import NOW, asking, parked
from tests.process.server.conftest import EXAMPLES, Serve, Served, wait_for
from tests.process.server.test_webhooks import Receiver, receiver, receiving

__all__ = ["receiver"]
ASKS = {"answers": [{"tools": [{"name": "Bash", "input": {"command": "rm -r build"}, "ask": True}], "text": "Clean."}]}
CRASHES = {"answers": [{"fault": "crash", "text": "x"}]}


def add_agents(server: Served) -> Served:
    (server.home / "profiles").mkdir(parents=True, exist_ok=True)
    (server.home / "profiles/asks.yaml").write_text("executor: scripted\ninput: {wait_seconds: 3600}\n")
    server.add_agent({"name": "cleaner", "profile": "asks", "executor_config": {"script": ASKS}})
    server.add_agent({"name": "crasher", "profile": "scripted", "executor_config": {"script": CRASHES}})
    return server


def add_webhook(server: Served, url: str, **more: Any) -> dict[str, Any]:
    answer = server.client.post("/webhooks", json={"url": url, **more})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def test_the_command_is_told_of_a_pause(serve: Serve, tmp_path: Path) -> None:
    told = tmp_path / "told"
    server = serve("--no-worker", "--notify", f"sh -c 'cat >> {told}'")
    server.client.put("/limits/profile/nightly", json={"most": 0}).raise_for_status()
    wait_for(lambda: told.exists() and told.read_text().endswith("\n"))
    assert json.loads(told.read_text())["profile"] == "nightly"


def test_events_reach_webhooks_and_the_command_once(serve: Serve, receiver: Receiver, tmp_path: Path) -> None:
    told = tmp_path / "told"
    server = add_agents(serve("--notify", f"sh -c 'cat >> {told}; exit 3'"))
    events = ["input.requested", "run.failed", "profile.paused"]
    add_webhook(server, receiver.url, events=events)
    with receiving() as chat, receiving() as other:
        add_webhook(server, chat.url, events=["run.failed"], agents=["crasher"], format="chat")
        add_webhook(server, other.url, events=["run.ended", "run.failed", "input.requested"], agents=["somebody"])
        asking = server.start("cleaner", {"prompt": "Clean"})["run_id"]
        failed = server.start("crasher", {"prompt": "Fail"})["run_id"]
        server.client.put("/limits/profile/elsewhere", json={"most": 0}).raise_for_status()
        wait_for(lambda: len(receiver.requests) == len(events) and chat.requests)
        wait_for(lambda: told.exists() and len(told.read_text().splitlines()) == len(events))
        sent = {one["type"]: one for one in (json.loads(body) for _, body in receiver.requests)}
        request, failure, pause = (sent[event] for event in events)
        assert (request["run"]["run_id"], request["request"]["title"]) == (asking, "May Bash be called?")
        assert (failure["run"]["run_id"], failure["failure"]["type"]) == (failed, "executor_crashed")
        assert pause["profile"] == "elsewhere"
        text = json.loads(chat.requests[0][1])["text"]
        assert text.startswith("crasher failed: executor_crashed: ")
        assert text.endswith(f" {server.url}/ui/runs/{failed}")
        assert {one["id"] for one in map(json.loads, told.read_text().splitlines())} == set(receiver.ids)
        wait_for(lambda: "sh ended with exit code 3" in server.log)
        server.client.post(f"/runs/{asking}/stop").raise_for_status()
        server.ended(asking)
        assert not other.requests
    listed = server.client.get("/webhooks").json()["webhooks"]
    assert [one["delivered_at"] is not None for one in listed] == [True, True, False]


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["sh", "-c", "cat > told"], None),
        (["sh", "-c", "exit 3"], "sh ended with exit code 3"),
        (["sh", "-c", "sleep 600 & wait"], "sh did not end within 0.5 s"),
        (["/no/such/command"], "/no/such/command cannot be started: No such file or directory"),
    ],
)
def test_what_a_command_does_wrong_is_told(
    command: list[str], problem: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notifier = Notifier(StoreAccess(StorePlace(tmp_path), "x"), command, os.environ, 0.5 if problem else 60.0)
    assert asyncio.run(notifier.perform({"type": "host.lost"})) == problem
    if problem is None:
        assert json.loads(Path("told").read_text()) == {"type": "host.lost"}


def test_a_failed_delivery_is_sent_again_on_the_page(served: Served, receiver: Receiver) -> None:
    receiver.status = 500
    add_webhook(served, receiver.url, events=["profile.paused"])
    served.client.put("/limits/profile/elsewhere", json={"most": 0}).raise_for_status()
    pages = served.client

    def page() -> str:
        return pages.get("/ui/webhooks", headers={"accept": "text/html"}).raise_for_status().text

    wait_for(lambda: "the receiver answered 500" in page())
    tried = len(receiver.requests)
    receiver.status = 200
    action = page().partition('/retry"')[0].rpartition('"')[2] + "/retry"
    assert pages.post(action).status_code == 303
    wait_for(lambda: len(receiver.requests) > tried and "nothing was delivered yet" not in page())
    assert "the receiver answered 500" not in page()


def test_the_form_of_a_webhook_keeps_what_was_typed_and_shows_the_secret_once(served: Served) -> None:
    refused = served.client.post("/ui/webhooks", data={"url": "ftp://x.example", "events": "run.failed", "agents": "a"})
    assert refused.status_code == 422
    assert "expected https://HOST/" in refused.text
    assert 'value="ftp://x.example"' in refused.text
    url = "http://127.0.0.1:9/hook"
    made = served.client.post("/ui/webhooks", data={"url": url, "events": "run.failed", "agents": "a, b"})
    assert made.status_code == 201
    assert "whsec_" in made.text
    assert "whsec_" not in served.client.get("/ui/webhooks").text
    (listed,) = served.client.get("/webhooks").json()["webhooks"]
    assert (listed["events"], listed["agents"]) == (["run.failed"], ["a", "b"])
    assert served.client.post(f"/ui/webhooks/{listed['webhook_id']}/delete").status_code == 303
    assert served.client.get("/webhooks").json()["webhooks"] == []


@pytest.fixture
def store(place: StorePlace) -> Any:
    with place.open() as opened:
        yield opened


def told_of(store: Store) -> list[Notice]:
    """Return all notices of which no command was told."""
    return store.notices.since("")


def test_a_pause_is_told_once_and_again_when_it_has_changed(store: Store) -> None:
    hook = Webhook("whk_1", "http://127.0.0.1/", "s", "2026-01-01", {"events": ["profile.paused"]})
    store.webhooks.add(hook)
    for until, expected in (("2999-01-01", 1), ("2999-01-01", 1), ("2999-01-02", 2), ("2000-01-01", 2)):
        with store.transaction():
            store.limits.put(RunLimit("pause", "p", 0, until))
            announce_untold(store)
        assert len(told_of(store)) == expected
        assert len(store.deliveries.all("webhook", "whk_1", 10)) == expected
    assert announce_untold(store) == 0
    store.limits.put(RunLimit("agent", "a", 0))
    assert announce_untold(store) == 0


def test_requests_and_failures_are_told_once(store: Store) -> None:
    hook = {"events": ["input.requested", "run.failed"], "agents": ["agent"]}
    store.webhooks.add(Webhook("whk_1", "http://127.0.0.1/", "s", "2026-01-01", hook))
    store.webhooks.add(Webhook("whk_2", "http://127.0.0.1/", "s", "2026-01-01", {**hook, "agents": ["other"]}))
    asking(store, "call_1")
    for _ in range(2):
        announce_untold(store)
        assert [(one.event, one.facts) for one in told_of(store)] == [("input.requested", {"request_id": "call_1"})]
    store.runs.end("run_1", "failed", NOW, "executor_crashed")
    for _ in range(2):
        store.deliveries.announce_ends(NOW)
        told = {one.notice_id: one.event for one in told_of(store)}
        assert sorted(told.values()) == ["input.requested", "run.failed"]
    assert {one.run_id for one in store.deliveries.all("webhook", "whk_1", 9)} == told.keys()
    assert store.deliveries.all("webhook", "whk_2", 9) == []
    store.deletions.delete(["ses_1"])
    assert (store.deliveries.all("webhook", "whk_1", 9), told_of(store)) == ([], [])


def test_a_parked_run_is_told_as_a_request_and_to_one_command(store: Store) -> None:
    parked(store, "call_1")
    store.deliveries.announce_ends(NOW)
    announce_untold(store)
    (notice,) = told_of(store)
    assert notice.event == "input.requested"
    assert [store.notices.claim(notice.notice_id) for _ in range(2)] == [True, False]
    assert told_of(store) == []


def test_a_host_is_lost_when_its_last_worker_is_gone_without_leaving(store: Store) -> None:
    names = [f"{REMOTE}{number}" for number in range(3)]
    for name in names:
        store.workers.join(Offer(name, host="h", lease_seconds=1))
    store.workers.leave(names[2])
    assert announce_lost(store, dict.fromkeys(names, "h"), set()) == 0
    store.write("UPDATE workers SET lease_until = ?", ("-infinity" if store.waits_for_a_server else -1,))
    assert announce_lost(store, {names[0]: "h"}, {"h"}) == 0
    assert announce_lost(store, {names[1]: "h", names[2]: "h"}, set()) == 1
    assert announce_lost(store, dict.fromkeys(names, "h"), set()) == 0
    (notice,) = told_of(store)
    assert (notice.event, notice.facts) == ("host.lost", {"host": "h", "workers": [names[1]]})
    store.workers.mark_back([names[1]])
    assert announce_lost(store, {names[1]: "h"}, set()) == 1


def test_a_text_for_a_chat_mentions_nobody() -> None:
    run = {"run_id": "run_1", "agent_name": "a", "status": "failed"}
    failure = {"type": "e", "message": "<!channel> & @all <http://x|y>" + "z" * 1000}
    text = chat_text({"type": "run.failed", "run": run, "failure": failure}, "http://h")
    assert text.startswith("a failed: e: &lt;!channel&gt; &amp; @\u200ball &lt;http://x|y&gt;")
    assert text.endswith("z… http://h/ui/runs/run_1")
    assert chat_text({"type": "host.lost", "host": "h1"}, "") == "Host h1 is lost: its last worker is gone"


def test_the_examples_of_the_page_work_as_written(
    served: Served, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (EXAMPLES.parent / "notifications.md").read_text()
    bodies = [json.loads(body) for body in re.findall(r"-d '(.*?)'$", page, re.MULTILINE)]
    for body in bodies:
        add_webhook(served, **{**body, "url": receiver.url})
    served.client.put("/limits/profile/nightly", json={"most": 0}).raise_for_status()
    wait_for(lambda: receiver.requests)
    assert [json.loads(body) for _, body in receiver.requests] == [
        {"text": f"Profile nightly is paused {served.url}/ui/workers"}
    ]
    monkeypatch.chdir(tmp_path)
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    Path("tell.py").write_text(source)
    (command,) = re.findall(r"--notify '(.*?)'$", page, re.MULTILINE)
    notifier = Notifier(StoreAccess(StorePlace(tmp_path), "x"), command.split(), os.environ)
    assert asyncio.run(notifier.perform({"type": "host.lost", "host": "h1", "workers": []})) is None
    assert Path("told.txt").read_text() == "host.lost h1\n"
