"""What a person can see and do about the whole: limits, pauses, leases of workers, the record of actions, search."""

import json
import re
from dataclasses import replace
from typing import Any

import httpx
import pytest

from ao_runner.store import run_filter
from ao_runner.store.action_table import Action
from ao_runner.store.opening import StorePlace
from ao_runner.store.records import Run, Session
from ao_runner.store.run_filter import RunFilter
from ao_runner.store.store import Store
from ao_server.gate import tokens_of
from tests.process.server.conftest import Serve, Served, wait_for

HTML = {"accept": "text/html"}
REMOTE = "remote-of-a-test"


@pytest.fixture
def server(share: Serve, shared_store: str) -> Served:
    """A shared server without a worker, with each engine."""
    return share("--no-worker", store=shared_store)


def queued(server: Served, profile: str = "reviewer", **parameters: Any) -> dict[str, Any]:
    body = {"type": "start_session", "parameters": {"prompt": "x", **parameters}, "profile": profile}
    return dict(server.client.post("/runs", json=body).raise_for_status().json())


def joined(server: Served, lease_seconds: float = 120) -> None:
    """Join a worker that performs nothing."""
    offer = {"owner": REMOTE, "host": "elsewhere", "profiles": ["reviewer"], "lease_seconds": lease_seconds, "slots": 6}
    call(server, "join", offer=offer)


def call(server: Served, name: str, **fields: Any) -> Any:
    body = {"worker_id": REMOTE, **fields}
    return server.client.post(f"/worker/{name}", json=body).raise_for_status().json()


def posted(server: Served, path: str, **form: str) -> httpx.Response:
    return server.client.post(path, data=form, headers=HTML)


def row_of(page: str, name: str) -> str:
    """Return the texts of the row of a profile or worker."""
    (row,) = (one for one in re.findall(r"<tr>.*?</tr>", page, re.DOTALL) if f"<td>{name}" in one)
    return " ".join(re.sub("<[^>]+>", " ", row).split())


def load_of(server: Served, name: str) -> str:
    page = server.client.get("/ui/workers", headers=HTML).raise_for_status().text
    return row_of(page.partition("<h2>Load</h2>")[2].partition("</section>")[0], name)


def test_a_limit_holds_until_it_is_removed(server: Served) -> None:
    limits = server.client
    assert limits.put("/limits/agent/triage", json={"most": 2}).json() == {"kind": "agent", "name": "triage", "most": 2}
    assert limits.put("/limits/profile//opt/a%20b", json={"most": 0}).status_code == 200
    found = {(one["kind"], one["name"]): one["most"] for one in limits.get("/limits").json()["limits"]}
    assert found == {("agent", "triage"): 2, ("profile", "/opt/a b"): 0}
    assert limits.delete("/limits/agent/triage").status_code == 204
    assert limits.delete("/limits/profile//opt/a%20b").status_code == 204
    assert limits.delete("/limits/agent/triage").status_code == 404
    assert limits.get("/limits").json() == {"limits": []}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/limits/pause/x", {"most": 1}, "kind"),
        ("/limits/agent/x", {"most": -1}, "most"),
        ("/limits/agent/x", {"most": False}, "most"),
        ("/limits/agent/x", {"most": 10**12}, "most"),
        ("/limits/agent/x", {"most": 1, "until": "now"}, "until"),
        (f"/limits/agent/{'x' * 1001}", {"most": 1}, "name"),
    ],
)
def test_a_bad_limit_is_refused(share: Serve, path: str, body: dict[str, Any], field: str) -> None:
    answer = share("--no-worker").client.put(path, json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["loc"][-1] == field


def test_runs_of_a_paused_profile_wait_until_it_is_resumed(served: Served) -> None:
    profile = served.ended(served.start("echo", {"message": "a"})["run_id"])["profile"]
    assert posted(served, "/ui/workers/pause", profile=profile).headers["location"] == "/ui/workers"
    run_id = served.start("echo", {"message": "b"})["run_id"]
    assert load_of(served, profile).startswith(f"{profile} paused 1 0 ")
    assert load_of(served, profile).endswith("Resume")
    assert served.run(run_id)["waiting"] == f"profile {profile} is paused"
    posted(served, "/ui/workers/resume", profile=profile)
    assert served.ended(run_id)["status"] == "completed"
    assert load_of(served, profile).endswith("Pause")


def test_a_pause_does_not_lose_a_limit(server: Served) -> None:
    server.client.put("/limits/profile/reviewer", json={"most": 3})
    assert "at most 3 at a time" in load_of(server, "reviewer")
    refused = posted(server, "/ui/workers/pause", profile="reviewer")
    assert refused.status_code == 409
    assert "ao limits" in refused.text
    posted(server, "/ui/workers/resume", profile="reviewer")
    (limit,) = server.client.get("/limits").json()["limits"]
    assert (limit["name"], limit["most"]) == ("reviewer", 3)


@pytest.mark.parametrize("profile", ["", "x\0y", "x" * 1001])
def test_a_bad_name_is_not_paused(share: Serve, profile: str) -> None:
    assert posted(share("--no-worker"), "/ui/workers/pause", profile=profile).status_code == 422


def test_the_page_of_workers_tells_slots_outbox_and_lease(server: Served) -> None:
    joined(server)
    queued(server)
    assert len(call(server, "claim", slots=1, claim_id="one")["assignments"]) == 1
    call(server, "heartbeat", held=[], outbox_seconds=90)
    page = server.client.get("/ui/workers", headers=HTML).text
    runs, outbox, seconds = re.findall(r" (\d+ of \d+) ([\d a-z]+) (\d+) s Drain$", row_of(page, "elsewhere"))[0]
    assert (runs, outbox) == ("1 of 6", "1 min 30 s")
    assert 60 < int(seconds) <= 120
    call(server, "leave")


def test_a_reader_cannot_pause(share: Serve) -> None:
    server = share("--token", "--no-worker")
    tokens = tokens_of(server.home)
    as_client, as_reader = ({"authorization": f"Bearer {tokens[role]}"} for role in ("client", "reader"))
    server.client.put("/limits/profile/reviewer", json={"most": 0}, headers=as_client).raise_for_status()
    page = server.client.get("/ui/workers", headers={**HTML, **as_reader}).text
    assert "paused" in page
    assert "/ui/workers/" not in page.replace("/ui/workers/stream", "")
    for path in ("/ui/workers/pause", "/ui/workers/resume"):
        assert server.client.post(path, data={"profile": "reviewer"}, headers=as_reader).status_code == 403
    assert server.client.delete("/limits/profile/reviewer", headers=as_reader).status_code == 403


def actions_of(server: Served, query: str = "") -> list[tuple[str, str, str]]:
    """Return role, request and target of each action on a page, newest first."""
    page = server.client.get(f"/ui/actions{query}", headers=HTML).raise_for_status().text
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr><td.*?</tr>", page, re.DOTALL)]
    return [(role, what, re.sub("<[^>]*>", "", target)) for role, _, what, target, _ in cells]


def test_what_clients_and_pages_change_is_recorded(serve: Serve) -> None:
    server = serve("--no-worker")
    run_id = queued(server)["run_id"]
    joined(server)
    call(server, "heartbeat", held=[])
    server.client.post("/agents/check", json={"name": "x"})
    server.client.post("/runs", json={"type": "none"})
    server.client.delete("/limits/agent/none")
    posted(server, "/ui/workers/pause", profile="reviewer")
    posted(server, "/ui/runs/actions", action="cancel", run_id=run_id)
    posted(server, f"/ui/runs/{run_id}/again")
    server.client.get("/ui/runs", headers=HTML)
    wait_for(lambda: len(actions_of(server)) == 4)
    (again, *earlier) = actions_of(server)
    assert again[:2] == ("no token", f"POST /ui/runs/{run_id}/again")
    assert again[2].startswith("run_")
    assert again[2] != run_id
    assert earlier == [
        ("no token", "POST /ui/runs/actions", run_id),
        ("no token", "POST /ui/workers/pause", "reviewer"),
        ("no token", "POST /runs", run_id),
    ]


def test_an_action_is_recorded_with_the_role_of_its_token(serve: Serve) -> None:
    server = serve("--token", "--no-worker")
    tokens = tokens_of(server.home)
    body = {"type": "start_session", "parameters": {"prompt": "x"}, "profile": "reviewer"}
    for role in ("client", "worker", "reader"):
        server.client.post("/runs", json=body, headers={"authorization": f"Bearer {tokens[role]}"})
    server.client.headers["authorization"] = f"Bearer {tokens['reader']}"
    wait_for(lambda: len(actions_of(server)) == 2)
    assert [(role, what) for role, what, _ in actions_of(server)] == [
        ("worker", "POST /runs"),
        ("client", "POST /runs"),
    ]


def test_a_stopped_server_has_recorded_every_action_and_pages_list_them_all(serve: Serve, place: StorePlace) -> None:
    server = serve("--no-worker", home=place.home / "home", store=place.url)
    for number in range(230):
        server.client.put(f"/limits/agent/a{number}", json={"most": 1}).raise_for_status()
    server.__exit__(None, None, None)
    again = serve("--no-worker", home=place.home / "home", store=place.url)
    first = actions_of(again)
    page = again.client.get("/ui/actions", headers=HTML).text
    older = actions_of(again, re.findall(r'href="/ui/actions(\?before=\d+)">Older', page)[0])
    assert (len(first), len(older)) == (200, 30)
    assert [what for _, what, _ in first + older] == [f"PUT /limits/agent/a{number}" for number in reversed(range(230))]


def test_what_a_tool_of_mcp_does_is_recorded(serve: Serve) -> None:
    server = serve("--no-worker")
    server.add_agent({"name": "waiting", "profile": "reviewer"})
    arguments = {"agent_name": "waiting", "parameters": {"prompt": "x"}, "mode": "async_poll"}
    for method, more in (("tools/list", {}), ("tools/call", {"name": "start_agent_session", "arguments": arguments})):
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": more}
        answer = server.client.post("/mcp", json=body, headers={"accept": "application/json, text/event-stream"})
        assert '"isError":true' not in answer.text
    wait_for(lambda: len(actions_of(server)) == 2)
    assert [one[:2] for one in actions_of(server)] == [("mcp", "POST /runs"), ("no token", "POST /agents")]


@pytest.mark.parametrize("before", ["0", "-1", "x", str(2**64)])
def test_an_odd_page_of_actions_is_refused(share: Serve, before: str) -> None:
    assert share("--no-worker").client.get("/ui/actions", params={"before": before}).status_code == 422


def test_old_actions_are_forgotten(store: Store) -> None:
    for at in ("2026-01-01T00:00:00.000Z", "2026-02-01T00:00:00.000Z"):
        store.actions.add([Action(at, "client", "POST /runs", "")])
    assert store.actions.forget("2026-01-31T00:00:00.000Z") == 1
    assert [one.at for one in store.actions.newest(None, 10)] == ["2026-02-01T00:00:00.000Z"]


def ended(store: Store, number: int, answer: str, *, prompt: str = "x", escapes: bool = True) -> str:
    """Store a session with a run that has ended with an answer."""
    run_id = f"run_{number}"
    now = "2026-01-01T00:00:00.000Z"
    store.sessions.add(Session(f"ses_{number}", now, "claude", "/x", "/", {"name": "a"}))
    store.queue.add(replace(Run(run_id, f"ses_{number}", "start", {"prompt": prompt}, now), profile="reviewer"))
    lines = [{"event_type": "message", "text": "said before"}, {"event_type": "result", "text": answer}]
    for seq, line in enumerate(lines, 1):
        store.events.add(run_id, seq, [json.dumps(line, ensure_ascii=escapes).encode()])
    store.runs.end(run_id, "completed", now, None)
    return run_id


def found(store: Store, text: str, **more: Any) -> list[str]:
    return [state.run.run_id for state in store.runs.search(RunFilter(text=text, **more))]


def test_search_finds_parameters_and_results(store: Store) -> None:
    with store.transaction():
        ended(store, 1, "The Deploy is blocked", prompt='50% of "A_B"')
        ended(store, 2, "Alles Grüne ist gut")
        ended(store, 3, "Alles Grüne ist gut", escapes=False)
        store.queue.add(replace(Run("run_4", "ses_3", "resume", {"prompt": "deploy"}, "2026"), profile="reviewer"))
    assert found(store, "DEPLOY") == ["run_4", "run_1"]
    assert found(store, "deploy", statuses=("completed",), agent="a", equal={"profile": "reviewer"}) == ["run_1"]
    assert found(store, "grüne") == ["run_3", "run_2"]
    assert found(store, '50% of "a_b"') == ["run_1"]
    assert found(store, "_%") == []
    assert found(store, "said before") == []


def test_search_looks_into_the_results_of_the_newest_runs_only(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_filter, "RUNS_WITH_RESULTS", 2)
    with store.transaction():
        for number in range(4):
            ended(store, number, "the needle")
    assert found(store, "needle") == ["run_3", "run_2"]
    assert found(store, "needle", before=store.runs.find("run_3")[0].number) == ["run_2"]


def test_pages_and_the_api_search_results(served: Served) -> None:
    run_id = served.start("echo", {"message": "a"})["run_id"]
    served.ended(run_id)
    result = served.client.get(f"/runs/{run_id}/result").json()["validated_output"]
    assert result["echo"] == ["a"]
    assert [run["run_id"] for run in served.client.get("/runs", params={"text": "echo"}).json()["runs"]] == [run_id]
    page = served.client.get("/ui/runs", params={"text": "echo"}, headers=HTML).text
    assert f'id="r-{run_id}"' in page
    assert "newest 5,000 runs" in page
    assert "No run fits" in served.client.get("/ui/runs", params={"text": "neither here nor there"}, headers=HTML).text
