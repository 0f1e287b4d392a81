"""Runs that are watched while they happen, in a real browser."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import expect

from tests.process.fork_server import start_ao
from tests.process.server.conftest import BOUND_SECONDS, Serve, Served, wait_for
from tests.process.server.ui.conftest import Open, add_scripted, start_scripted

MINIATURES = Path(__file__).parents[3] / "miniatures"
SILENT = {"heartbeat", "usage", "tool_finished"}
"""Events without an entry of their own: the end of a call stands in the entry of its begin."""


@contextmanager
def worker_of(home: Path) -> Iterator[None]:
    """A worker that does not belong to the server."""
    with (home.parent / "worker.log").open("wb") as log:
        environ = {**os.environ, "AO_HOME": str(home), "AO_STORE": "local"}
        process = start_ao(["worker"], cwd=home.parent, env=environ, stderr=log)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(BOUND_SECONDS)


def told_events(server: Served, session_id: str) -> list[str]:
    """Return the ids of all events of a session that a timeline shows."""
    events = server.client.get(f"/sessions/{session_id}/log", params={"limit": 1000}).json()["events"]
    return [f"e{one['id']}" for one in events if one["event"]["event_type"] not in SILENT]


def test_a_list_shows_a_run_that_begins_and_ends_meanwhile(scripted: Served, open_page: Open) -> None:
    page = open_page(f"{scripted.url}/ui/runs")
    expect(page.get_by_role("heading", name="No run yet")).to_be_visible()
    run_id = start_scripted(scripted, "chatting")["run_id"]
    row = page.locator(f"#r-{run_id}")
    expect(row.locator(".badge")).to_have_text("completed", timeout=60_000)
    assert scripted.ended(run_id)["status"] == "completed"


def test_inbox_costs_and_workers_follow_the_store(scripted: Served, open_page: Open) -> None:
    inbox, usage, workers, watched = (
        open_page(f"{scripted.url}/ui/{one}") for one in ("inbox", "usage", *["workers"] * 2)
    )
    expect(inbox.get_by_role("heading", name="Nothing needs you")).to_be_visible()
    run_id = start_scripted(scripted, "crashing")["run_id"]
    expect(inbox.locator(f'a[href="/ui/runs/{run_id}"]')).to_be_visible()
    expect(usage.locator("#usage dd").first).to_have_text("1")
    waiting = start_scripted(scripted, "waiting")["run_id"]
    expect(watched.locator("#workers td", has_text="1 of 4")).to_be_visible()
    workers.get_by_role("link", name="Drain").click()
    workers.get_by_role("button", name="Drain").click()
    expect(watched.locator("#workers .badge")).to_have_text("draining")
    scripted.client.post(f"/runs/{waiting}/stop")
    expect(watched.locator("#workers .alert")).to_contain_text("was drained")
    watched.get_by_role("button", name="Resume").click()
    expect(workers.locator("#workers td", has_text="0 of 4")).to_be_visible()
    expect(workers.locator("#workers .alert")).to_have_count(0)


def test_a_run_is_watched_until_its_result_and_cancelled(scripted: Served, open_page: Open) -> None:
    run_id = start_scripted(scripted, "waiting")["run_id"]
    page = open_page(f"{scripted.url}/ui/runs/{run_id}")
    expect(page.locator("#timeline")).to_contain_text("make")
    expect(page.locator("#head .badge").first).to_have_text("running")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#head .badge").first).to_have_text("stopped", timeout=60_000)
    expect(page.locator("#timeline")).to_contain_text("I begin.")
    expect(page.locator("#timeline .end .who")).to_have_text("Cancelled")
    assert scripted.ended(run_id)["status"] == "stopped"


def test_a_page_that_loses_its_server_comes_back_without_a_doubled_entry(serve: Serve, open_page: Open) -> None:
    first = serve("--no-worker")
    add_scripted(first, "counting")
    with worker_of(first.home):
        ids = start_scripted(first, "counting")
        page = open_page(f"{first.url}/ui/sessions/{ids['session_id']}")
        page.locator("#timeline .tool").nth(4).wait_for()
        first.__exit__(None, None, None)
        expect(page.locator("#live")).to_have_text("reconnecting", timeout=60_000)
        second = serve("--no-worker", port=first.port)
        wait_for(lambda: second.run(ids["run_id"])["status"] == "completed")
        expect(page.locator("#timeline .end .who")).to_have_text("Result", timeout=60_000)
        shown = page.locator("#timeline > li").evaluate_all("entries => entries.map(entry => entry.id)")
    assert shown == told_events(second, ids["session_id"])
    assert page.locator("#timeline .tool").count() == 40


def test_a_message_takes_the_place_of_its_pieces(scripted: Served, open_page: Open, tmp_path: Path) -> None:
    scripted.add_agent({"name": "piecewise", "profile": str(MINIATURES / "speaks_in_pieces.py")})
    run_id = start_scripted(scripted, "piecewise", str(tmp_path / "goes_on"))["run_id"]
    page = open_page(f"{scripted.url}/ui/runs/{run_id}")
    expect(page.locator("#timeline .delta")).to_contain_text("word1 word2")
    (tmp_path / "goes_on").touch()
    expect(page.locator("#timeline .end .who")).to_have_text("Result", timeout=60_000)
    expect(page.locator("#timeline .delta")).to_have_count(0)
    expect(page.locator("#timeline .message")).to_contain_text("word0 word1 word2")
    page.reload()
    assert page.locator("#timeline").inner_text().count("word19") == 1


def test_the_pieces_of_a_message_that_never_ends_are_one_entry(scripted: Served, open_page: Open) -> None:
    scripted.add_agent({"name": "unfinished", "profile": str(MINIATURES / "stops_within_a_message.py")})
    run_id = start_scripted(scripted, "unfinished")["run_id"]
    page = open_page(f"{scripted.url}/ui/runs/{run_id}")
    for _ in range(2):
        expect(page.locator("#timeline .delta")).to_have_count(1)
        expect(page.locator("#timeline .delta")).to_contain_text("the end so far")
        page.reload()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#timeline .end .who")).to_have_text("Cancelled")
    expect(page.locator("#timeline .delta")).to_contain_text("the end so far")


def test_reasoning_is_folded_and_stays_open_while_it_grows(scripted: Served, open_page: Open, tmp_path: Path) -> None:
    scripted.add_agent({"name": "delegating", "profile": str(MINIATURES / "thinks_and_delegates.py")})
    run_id = start_scripted(scripted, "delegating", str(tmp_path))["run_id"]
    page = open_page(f"{scripted.url}/ui/runs/{run_id}")
    timeline = page.locator("#timeline")
    thought = timeline.locator(".reasoning").first
    expect(thought.locator("summary")).to_contain_text("Thinking The user wants two counts.")
    expect(thought.locator("summary")).to_contain_text("so I ask two sub-agents.")
    expect(thought.locator(".text")).to_be_hidden()
    assert timeline.locator(".delta").count() == 1
    thought.locator("summary").click()
    expect(thought.locator(".text")).to_have_text(
        "The user wants two counts. They do not depend on each other, so I ask two sub-agents.\n", use_inner_text=True
    )
    (tmp_path / "thought").touch()

    expect(timeline.locator(".delta")).to_have_count(2)
    expect(timeline.locator(".message .reasoning").first.locator(".text")).to_be_visible()
    expect(timeline.locator(".delta", has_text="Words: one, two")).to_have_count(1)
    lines = timeline.locator(".delta", has_text="Thinking Lines: the first, the second")
    expect(lines).to_contain_text("part of Task Count the lines")
    (tmp_path / "done").touch()
    expect(timeline.locator(".end .who")).to_have_text("Result")
    expect(timeline.locator(".delta")).to_have_count(0)


def test_the_work_of_sub_agents_stands_below_their_calls(scripted: Served, open_page: Open) -> None:
    scripted.add_agent({"name": "delegating", "profile": str(MINIATURES / "thinks_and_delegates.py")})
    run_id = start_scripted(scripted, "delegating")["run_id"]
    scripted.ended(run_id)
    page = open_page(f"{scripted.url}/ui/runs/{run_id}", java_script_enabled=False)
    entries = page.locator("#timeline > li")
    assert "" not in [text.strip() for text in entries.locator(".what").all_inner_texts()]
    ours, words, check = (
        entries.filter(has_text=text) for text in ("I ask two sub-agents.", "Words: one, two, three", "There are three")
    )
    lefts = [
        one.last.locator(".who").evaluate("who => who.getBoundingClientRect().left") for one in (ours, words, check)
    ]
    assert lefts[1] - lefts[0] == lefts[2] - lefts[1] > 0
    expect(words.locator(".part")).to_have_text("part of Task Count the words")
    expect(check.locator(".hidden-text")).to_have_text("part of Task")  # told, not shown: it stands below the call
    thought = ours.last.locator(".reasoning")
    expect(thought.locator(".text")).to_be_hidden()
    thought.locator("summary").click()
    expect(thought.locator(".text")).to_have_text("One for the words.")


def test_a_stream_that_begins_within_a_call_knows_the_call(scripted: Served, open_page: Open) -> None:
    scripted.add_agent({"name": "delegating", "profile": str(MINIATURES / "thinks_and_delegates.py")})
    run_id = start_scripted(scripted, "delegating")["run_id"]
    scripted.ended(run_id)
    page = open_page(f"{scripted.url}/ui/runs/{run_id}", java_script_enabled=False)
    event_id = page.locator("#timeline > li", has_text="There are three words.").get_attribute("id") or ""
    begun = page.locator("#timeline > .tool", has_text="Check the count").first.get_attribute("id")
    stream = scripted.client.get(f"/ui/runs/{run_id}/stream", params={"after": event_id.removeprefix("e")}).text
    assert "There are three words." not in stream
    assert "level-2" in stream
    assert "part of Task Count the words" in stream
    assert f'hx-target="#{begun}"' in stream  # the end of a call that the page has
    assert "an earlier call" not in stream


def test_what_a_run_did_before_it_failed_stays_on_its_page(scripted: Served, open_page: Open) -> None:
    run_id = start_scripted(scripted, "crashing")["run_id"]
    page = open_page(f"{scripted.url}/ui/runs/{run_id}")
    expect(page.locator("#head .alert.bad")).to_contain_text("executor_crashed", timeout=60_000)
    expect(page.locator("#timeline")).to_contain_text("Half of it is done.")


def test_a_session_shows_its_next_run_when_it_is_resumed(scripted: Served, open_page: Open) -> None:
    ids = start_scripted(scripted, "chatting", "How are you?")
    scripted.ended(ids["run_id"])
    page = open_page(f"{scripted.url}/ui/sessions/{ids['session_id']}")
    page.get_by_label("Continue the session").fill("And tomorrow?")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#timeline")).to_contain_text("Answer 2.", timeout=60_000)
    expect(page.locator("#timeline")).to_contain_text("And tomorrow?")
    expect(page.locator("#head tbody tr")).to_have_count(2)


def test_a_parent_leads_to_its_children_and_back(scripted: Served, open_page: Open) -> None:
    parent = start_scripted(scripted, "waiting")["session_id"]
    page = open_page(f"{scripted.url}/ui/sessions/{parent}")
    child = start_scripted(scripted, "chatting", parent_session_id=parent)
    scripted.ended(child["run_id"])
    page.reload()
    page.locator("#head .tree").get_by_role("link", name=child["session_id"]).click()
    expect(page.locator("#head h1")).to_have_text("chatting")
    page.locator("#head .tree").get_by_role("link", name=parent).click()
    expect(page.locator("#head h1")).to_have_text("waiting")


def test_an_attempt_that_does_not_fit_is_shown_with_the_path_of_its_error(scripted: Served, open_page: Open) -> None:
    run_id = start_scripted(scripted, "reviewer")["run_id"]
    page = open_page(f"{scripted.url}/ui/runs/{run_id}")
    contract = page.locator("section", has=page.get_by_role("heading", name="Output contract"))
    expect(contract.locator("header .badge")).to_have_text("valid", timeout=60_000)
    expect(contract.locator("li").first).to_contain_text("$.approval")
    expect(page.locator(".json")).to_contain_text("approval")
    expect(page.locator("#head .facts")).to_contain_text("$0.5000")
