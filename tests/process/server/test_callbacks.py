"""A child that was started with `async_callback` resumes its parent when it ends, once, whatever dies in between."""

from collections.abc import Callable
from typing import Any

import pytest

from ao_runner.store.limit_table import RunLimit
from ao_runner.store.opening import StorePlace
from ao_runner.store.store import Store
from tests.process.server.conftest import Serve, Served, wait_for

Answers = list[dict[str, Any]]


def add_agents(server: Served) -> None:
    """Add a parent that answers each turn, and children that end in different ways."""
    of: dict[str, Answers] = {
        "parent": [{"text": "Noted."}],
        "texting": [{"text": "Done"}],
        "structured": [{"json": {"a": [1]}}],
        "failing": [{"fail": {"type": "provider_unavailable", "message": "no model"}}],
        "hanging": [{"fault": "hang"}],
    }
    for name, answers in of.items():
        script = {"answers": answers, "repeat": True}
        output: dict[str, Any] = {"output_schema": {"type": "object"}} if name == "structured" else {}
        server.add_agent({"name": name, "profile": "scripted", "executor_config": {"script": script}, **output})


def start_parent(server: Served) -> str:
    """Start a parent, wait for the end of its turn, and return its session."""
    run = server.ended(server.start("parent", {"prompt": "Begin."})["run_id"])
    assert run["status"] == "completed", server.log
    return str(run["session_id"])


def start_child(server: Served, parent: str, agent: str = "texting") -> dict[str, Any]:
    return server.start(agent, {"prompt": "Work."}, parent_session_id=parent, execution_mode="async_callback")


def turns(server: Served, session_id: str) -> list[dict[str, Any]]:
    """Return the runs of a session behind the first one, in order."""
    runs = server.client.get("/runs", params={"session_id": session_id}).raise_for_status().json()["runs"]
    return list(runs[::-1])[1:]


def prompts(server: Served, session_id: str, count: int) -> list[str]:
    """Wait until so many further turns of a session have ended and no callback waits, and return their prompts."""

    def look() -> list[str] | None:
        found = turns(server, session_id)
        is_over = len(found) >= count and all(run["completed_at"] for run in found) and not waiting(server, session_id)
        return [run["parameters"]["prompt"] for run in found] if is_over else None

    return list(wait_for(look))


def waiting(server: Served, session_id: str) -> list[dict[str, Any]]:
    return list(server.client.get(f"/sessions/{session_id}/callbacks").raise_for_status().json()["callbacks"])


def completed(session_id: str, said: str) -> str:
    return (
        f'<agent-callback session="{session_id}" status="completed">\n## Child Result\n\n{said}\n</agent-callback>\n\n'
        "Please continue with the orchestration based on this result."
    )


def failed(session_id: str, said: str) -> str:
    return (
        f'<agent-callback session="{session_id}" status="failed">\n## Error\n\n{said}\n</agent-callback>\n\n'
        "Please handle this failure and continue with the orchestration."
    )


@pytest.fixture
def server(share: Serve) -> Served:
    """A shared server with agents."""
    started = share()
    add_agents(started)
    return started


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("texting", lambda child: completed(child, "Done")),
        ("structured", lambda child: completed(child, '{\n  "a": [\n    1\n  ]\n}')),
        ("failing", lambda child: failed(child, "provider_unavailable: no model")),
    ],
    ids=["text", "data", "failure"],
)
def test_the_end_of_a_child_resumes_its_parent(server: Served, agent: str, expected: Callable[[str], str]) -> None:
    parent = start_parent(server)
    child = start_child(server, parent, agent)["session_id"]
    assert prompts(server, parent, 1) == [expected(child)]


def test_a_parent_hears_that_its_child_was_stopped(server: Served) -> None:
    parent = start_parent(server)
    child = start_child(server, parent, "hanging")
    wait_for(lambda: server.run(child["run_id"])["status"] == "running")
    server.client.post(f"/runs/{child['run_id']}/stop").raise_for_status()
    assert prompts(server, parent, 1) == [failed(child["session_id"], "Session was manually stopped")]


@pytest.mark.parametrize("mode", ["sync", "async_poll"])
def test_other_children_resume_nobody(server: Served, mode: str) -> None:
    parent = start_parent(server)
    quiet = server.start("texting", {"prompt": "Work."}, parent_session_id=parent, execution_mode=mode)
    assert server.ended(quiet["run_id"])["status"] == "completed"
    told = start_child(server, parent)["session_id"]
    assert prompts(server, parent, 1) == [completed(told, "Done")]


def test_a_busy_parent_hears_of_all_its_children_at_once(share: Serve, shared_store: str) -> None:
    server = share(store=shared_store)
    add_agents(server)
    parent = start_parent(server)
    with StorePlace(server.home, server.environ["AO_STORE"]).open() as store:
        resume_busily(server, store, parent)
        children = [start_child(server, parent, agent) for agent in ("texting", "failing", "texting")]
        wait_for(lambda: len(waiting(server, parent)) == len(children))
        assert len(turns(server, parent)) == 1
        store.limits.remove("agent", "parent")
    ids = [child["session_id"] for child in children]
    _, told = prompts(server, parent, 2)
    assert told.startswith('<agent-callback type="aggregated" count="3">\n### Child: ')
    assert told.endswith("\n</agent-callback>\n\nPlease continue with the orchestration based on these results.")
    said = {"texting": "completed)\n\nDone", "failing": "failed)\n\nprovider_unavailable: no model"}
    parts = told.partition("\n")[2].partition("\n</agent-callback>")[0].split("\n\n---\n\n")
    expected = zip(ids, ("texting", "failing", "texting"), strict=True)
    assert sorted(parts) == sorted(f"### Child: {child} (status: {said[agent]}" for child, agent in expected)


def test_a_parent_whose_turn_was_stopped_hears_nothing_until_a_later_turn_completes(server: Served) -> None:
    parent = start_parent(server)
    with StorePlace(server.home).open() as store:
        stopped = resume_busily(server, store, parent)
        child = start_child(server, parent)
        wait_for(lambda: waiting(server, parent))
        server.client.post(f"/runs/{stopped}/stop").raise_for_status()
        store.limits.remove("agent", "parent")
    other = start_parent(server)
    start_child(server, other)
    prompts(server, other, 1)  # announcements go on
    assert len(turns(server, parent)) == 1
    assert [one["run_id"] for one in waiting(server, parent)] == [child["run_id"]]
    resume(server, parent)
    assert prompts(server, parent, 3)[1:] == ["Go on.", completed(child["session_id"], "Done")]


def test_a_parent_that_cannot_be_resumed_is_given_up_with_the_reason(served: Served) -> None:
    add_agents(served)
    parent = served.ended(served.start("echo", {"message": "Hi"})["run_id"])["session_id"]
    child = start_child(served, parent)
    wait_for(lambda: [one for one in waiting(served, parent) if one["status"] == "failed"])
    (given_up,) = waiting(served, parent)
    assert given_up["run_id"] == child["run_id"]
    assert given_up["problem"] == "Procedural agents are stateless and cannot be resumed"
    said = f"session {parent} is not told of the end of {child['run_id']}: 'Procedural agents are stateless"
    wait_for(lambda: f"ao: warning: {said}" in served.log)
    for page in ("/ui/inbox", f"/ui/runs/{child['run_id']}"):
        text = served.client.get(page, headers={"accept": "text/html"}).text
        assert "is not told of its end: Procedural agents are stateless" in text
    assert turns(served, parent) == []


def test_a_deleted_parent_has_no_callbacks(server: Served) -> None:
    parent, child = start_parent(server), ""
    with StorePlace(server.home).open() as store:
        child = start_child(server, parent, "hanging")["run_id"]
        wait_for(lambda: server.run(child)["status"] == "running")
        server.client.delete(f"/sessions/{parent}").raise_for_status()
        server.client.post(f"/runs/{child}/stop").raise_for_status()
        server.ended(child)
        wait_for(lambda: not store.deliveries.unannounced_ends() and not store.deliveries.all("callback", parent, 10))


def test_a_deleted_child_resumes_nobody(server: Served) -> None:
    parent = start_parent(server)
    with StorePlace(server.home).open() as store:
        resume_busily(server, store, parent)
        gone, told = start_child(server, parent), start_child(server, parent)
        wait_for(lambda: len(waiting(server, parent)) == 2)
        server.client.delete(f"/sessions/{gone['session_id']}").raise_for_status()
        store.limits.remove("agent", "parent")
    assert prompts(server, parent, 2) == ["Go on.", completed(told["session_id"], "Done")]


Look = Callable[[Served, Store, str, str], object]


@pytest.mark.parametrize(
    ("is_busy", "is_time"),
    [
        (True, lambda server, _store, _parent, child: server.run(child)["completed_at"]),
        pytest.param(
            True,
            lambda _server, store, parent, _child: store.deliveries.all("callback", parent, 10),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            False, lambda server, _store, parent, _child: len(turns(server, parent)) >= 2, marks=pytest.mark.slow
        ),
    ],
    ids=["at the end of a child", "while a callback waits", "when a resume is queued"],
)
def test_each_child_is_told_once_over_a_kill(serve: Serve, place: StorePlace, is_busy: bool, is_time: Look) -> None:
    server = serve(home=place.home / "home", store=place.url)
    add_agents(server)
    parent = start_parent(server)
    with opened(place) as store:
        resume_busily(server, store, parent)
        children = [start_child(server, parent) for _ in range(2)]
        if not is_busy:
            store.limits.remove("agent", "parent")
        wait_for(lambda: is_time(server, store, parent, children[0]["run_id"]))
        server.process.kill()
        server.process.wait()
        store.limits.remove("agent", "parent")
    again = serve(home=server.home, store=place.url)
    ids = sorted(child["session_id"] for child in children)
    wait_for(lambda: told_of(again, parent) == ids)
    last = start_child(again, parent)["session_id"]
    wait_for(lambda: told_of(again, parent) == sorted([*ids, last]))
    assert waiting(again, parent) == []


@pytest.mark.slow  # 28 runs, two servers; test_webhooks.py has two servers, too
def test_two_servers_of_one_database_tell_each_child_once(serve: Serve, postgres: Any, tmp_path: Any) -> None:
    url = postgres.new_database()
    servers = [serve(home=tmp_path / name, store=url) for name in ("one", "two")]
    add_agents(servers[0])
    parents = [start_parent(server) for server in servers for _ in range(2)]
    children = {parent: [start_child(servers[number % 2], parent) for number in range(6)] for parent in parents}
    ids = {parent: sorted(child["session_id"] for child in started) for parent, started in children.items()}
    wait_for(lambda: {parent: told_of(servers[0], parent) for parent in parents} == ids)
    for parent in parents:
        runs = len(turns(servers[0], parent))
        assert len(prompts(servers[1], parent, runs)) == runs


def opened(place: StorePlace) -> Store:
    return StorePlace(place.home / "home", place.url).open()


def resume(server: Served, session_id: str) -> str:
    body = {"type": "resume_session", "session_id": session_id, "parameters": {"prompt": "Go on."}}
    return str(server.client.post("/runs", json=body).raise_for_status().json()["run_id"])


def resume_busily(server: Served, store: Store, parent: str) -> str:
    """Queue a turn of a parent, which is not over before the limit on its agent is removed."""
    store.limits.put(RunLimit("agent", "parent", 0))
    return resume(server, parent)


def told_of(server: Served, parent: str) -> list[str]:
    """Return the children in the prompts of all turns of a parent, each as often as it is there."""
    told: list[str] = []
    for run in turns(server, parent):
        prompt = run["parameters"]["prompt"]
        told += [part.partition('"')[0] for part in prompt.split('<agent-callback session="')[1:]]
        told += [part.partition(" ")[0] for part in prompt.split("### Child: ")[1:]]
    return sorted(told)
