"""What pages contain and what their forms do, also without JavaScript."""

import re
from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest
from playwright.sync_api import expect

from ao_server.gate import tokens_of
from tests.process.server.conftest import Serve, Served
from tests.process.server.ui.conftest import Open, add_scripted, start_scripted

MINIATURES = Path(__file__).parents[3] / "miniatures"
HTML = {"accept": "text/html"}
MAX_BYTES = 200_000


def page_of(server: Served, path: str, status: int = 200) -> str:
    answer = server.client.get(path, headers=HTML)
    assert answer.status_code == status, answer.text
    return answer.text


def entries_of(page: str) -> list[str]:
    return re.findall(r'<li class="entry [^"]*" id="e([^"]+)"', page)


def test_a_page_works_without_javascript(scripted: Served, open_page: Open) -> None:
    first = start_scripted(scripted, "reviewer")["run_id"]
    scripted.ended(first)
    page = open_page(f"{scripted.url}/", java_script_enabled=False)
    page.locator(f"#r-{first} a").click()
    expect(page.locator(".json")).to_contain_text("approval")
    page.get_by_role("button", name="Run again").click()
    expect(page.locator("#head")).to_contain_text(f"It repeats {first}")
    (newest,) = {run["run_id"] for run in scripted.client.get("/runs").json()["runs"]} - {first}
    assert page.url == f"{scripted.url}/ui/runs/{newest}"
    assert scripted.ended(newest)["status"] == "completed"


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_pages_are_the_same_with_each_engine(share: Serve, shared_store: str) -> None:
    server = share(store=shared_store)
    add_scripted(server, "reviewer", "many", "stubborn")
    runs = {name: server.ended(start_scripted(server, name)["run_id"]) for name in ("reviewer", "many", "stubborn")}
    child = server.ended(start_scripted(server, "many", parent_session_id=runs["many"]["session_id"])["run_id"])
    assert all(f'id="{place_of}{run["run_id"]}"' in page_of(server, "/ui/runs") for place_of, run in (
        ("r-", runs["reviewer"]), ("r-", runs["many"]), ("n-", runs["stubborn"])))  # fmt: skip
    assert "$.approval" in page_of(server, f"/ui/runs/{runs['reviewer']['run_id']}")
    session = page_of(server, f"/ui/sessions/{runs['many']['session_id']}")
    assert child["session_id"] in session
    assert len(entries_of(session)) > 25
    assert page_of(server, "/ui/usage").count("$0.5000") > 3
    for path in ("/ui/sessions", "/ui/inbox", "/ui/workers"):
        page_of(server, path)


def test_actions_reach_all_chosen_runs(scripted: Served, open_page: Open) -> None:
    runs = [start_scripted(scripted, "waiting")["run_id"] for _ in range(3)]
    page = open_page(f"{scripted.url}/ui/runs?agent=waiting")
    for run_id in runs[:2]:
        page.locator(f"#r-{run_id} input").check()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("status")).to_have_text("2 runs cancelled")
    expect(page.locator(".badge.stopped")).to_have_count(2, timeout=60_000)
    assert [scripted.ended(run_id)["status"] for run_id in runs[:2]] == ["stopped", "stopped"]
    assert scripted.run(runs[2])["status"] != "stopped"
    assert page.url == f"{scripted.url}/ui/runs?agent=waiting"


def test_filters_combine(scripted: Served) -> None:
    wanted = start_scripted(scripted, "stubborn", "Look at PR 7")["run_id"]
    others = [start_scripted(scripted, "stubborn", "PR 8"), start_scripted(scripted, "chatting", "Look at PR 7")]
    for run_id in (wanted, *(one["run_id"] for one in others)):
        scripted.ended(run_id)
    page = page_of(scripted, "/ui/runs?status=failed&agent=stubborn&profile=scripted&text=pr+7")
    assert re.findall(r'<tr id="r-(\w+)"', page) == [wanted]
    assert "No run fits" in page_of(scripted, "/ui/runs?status=completed&agent=stubborn")


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_parts_of_names_and_times_filter_and_are_counted(share: Serve, shared_store: str) -> None:
    server = share(store=shared_store)
    add_scripted(server, "chatting", "stubborn")
    server.add_agent({"name": "chat", "profile": "scripted", "executor_config": {"script": {"answers": []}}})
    ids = {name: start_scripted(server, name)["run_id"] for name in ("chatting", "stubborn")}
    for run_id in ids.values():
        server.ended(run_id)

    def found(query: str, path: str = "/ui/runs") -> list[str]:
        return re.findall(r'<tr id="[rn]-(\w+)"', page_of(server, f"{path}?{query}"))

    assert found("agent=TING") == found("agent=ting&profile=SCRIPT&since=1h") == [ids["chatting"]]
    assert found("agent=chat") == []  # an agent of this name exists, so no other one is meant
    assert found("agent=%25") == found("profile=_") == []
    filtered = page_of(server, "/ui/runs?agent=TING&since=24h")
    assert 'aria-current="true">All <b>1</b>' in filtered
    assert "failed <b>0</b>" in filtered
    assert "All</a>" in page_of(server, "/ui/runs?text=do")


def test_a_list_has_pages(scripted: Served) -> None:
    body = {"type": "start_session", "parameters": {"prompt": "x"}, "additional_demands": {"tags": ["gpu"]}}
    scripted.client.post("/runs/batch", json={"runs": [body] * 60}).raise_for_status()
    first = page_of(scripted, "/ui/runs?status=pending")
    older = re.findall(r'href="([^"]+)">Older', first)[0].replace("&amp;", "&")
    rows = [re.findall(r'<tr id="r-(\w+)"', page) for page in (first, page_of(scripted, older))]
    assert [len(one) for one in rows] == [50, 10]
    assert len({*rows[0], *rows[1]}) == 60


def order_of(server: Served, query: str, path: str = "/ui/runs") -> list[str]:
    page = page_of(server, f"{path}?{query}")
    return re.findall(r'<tr id="[rs]-(\w+)"', page)


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_list_is_sorted_both_ways_and_keeps_its_filters(share: Serve, shared_store: str) -> None:
    server = share(store=shared_store)
    add_scripted(server, "reviewer", "chatting", "waiting")
    ended = [start_scripted(server, name)["run_id"] for name in ("reviewer", "chatting")]
    for run_id in ended:
        server.ended(run_id)
    open_run = start_scripted(server, "waiting")["run_id"]
    assert order_of(server, "sort=agent") == [ended[1], ended[0], open_run]
    assert order_of(server, "sort=-agent") == [open_run, ended[0], ended[1]]
    assert order_of(server, "sort=-age") == [*ended, open_run]
    assert order_of(server, "sort=-age&skip=1") == [ended[1], open_run]
    assert order_of(server, "sort=took")[2] == order_of(server, "sort=-took")[2] == open_run
    assert order_of(server, "sort=-cost")[0] == ended[0]
    page = page_of(server, "/ui/runs?agent=ing&sort=-cost")
    assert 'aria-sort="descending"><a class="sort" href="/ui/runs?agent=ing&amp;sort=cost">Cost' in page
    assert 'name="sort" value="-cost"' in page
    assert len(order_of(server, "sort=-age", "/ui/sessions")) == 3
    today = server.run(open_run)["created_at"][:10]
    assert len(order_of(server, f"first=2020-01-01&last={today}")) == 3
    assert order_of(server, "first=2020-01-01&last=2020-01-31") == []
    assert len(order_of(server, "first=nonsense&last=9999-12-31")) == 3

    def listed(**query: str) -> list[str]:
        answer = server.client.get("/runs", params=query).raise_for_status().json()
        return [run["run_id"] for run in answer["runs"]]

    assert listed(reverse="true") == [*ended, open_run]
    assert listed(sort="agent", reverse="true", limit="1", skip="1") == [ended[0]]
    assert listed(until="2020-01-01T00:00:00Z") == listed(since="2100-01-01T00:00:00+02:00") == []
    for wrong in ("2026-01-01", "0001-01-01T00:00:00+23:00"):
        assert server.client.get("/runs", params={"since": wrong}).status_code == 422


def test_a_list_is_kept_under_a_name_until_it_is_removed(share: Serve, open_page: Open) -> None:
    server = share("--no-worker")
    page = open_page(f"{server.url}/ui/runs?status=failed&label=team%3Ddocs&sort=-cost")
    page.get_by_label("Name of this list").fill("Dear failures")
    page.get_by_role("button", name="Keep").click()
    expect(page.get_by_role("status")).to_have_text("Dear failures is kept in this browser")
    page.goto(f"{server.url}/ui/runs?status=running")
    page.get_by_role("link", name="Dear failures").click()
    expect(page).to_have_url(f"{server.url}/ui/runs?status=failed&label=team%3Ddocs&sort=-cost")
    page.get_by_role("button", name="Remove Dear failures").click()
    expect(page.get_by_role("link", name="Dear failures")).to_have_count(0)


def test_failures_need_a_person_until_they_are_run_again(scripted: Served) -> None:
    run_id = start_scripted(scripted, "stubborn")["run_id"]
    stuck = scripted.start("chatting", {"prompt": "x"}, additional_demands={"tags": ["gpu"]})["run_id"]
    scripted.ended(run_id)
    page = page_of(scripted, "/ui/inbox")
    assert "Answers that do not fit" in page
    assert run_id in page
    assert "no worker that serves scripted offers gpu" in page
    assert f'id="n-{stuck}"' in page_of(scripted, "/ui/runs")
    scripted.client.post(f"/ui/runs/{run_id}/again")
    scripted.client.post(f"/ui/runs/{stuck}/cancel", data={"back": "/ui/inbox"})
    after = page_of(scripted, "/ui/inbox")
    assert run_id not in after
    assert stuck not in after


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_failure_stands_once_and_comes_back_after_it_was_set_aside(share: Serve, shared_store: str) -> None:
    server = share(store=shared_store)
    add_scripted(server, "crashing", "stubborn")

    def fail(name: str = "crashing") -> str:
        return str(server.ended(start_scripted(server, name)["run_id"])["run_id"])

    def entries() -> list[str]:
        return re.findall(r'<tr id="i-(\w+)"', page_of(server, "/ui/inbox"))

    def act(action: str, run_id: str, **more: str) -> None:
        form = {"action": action, "run_id": run_id, **more}
        assert server.client.post("/ui/inbox/actions", data=form).status_code == 303

    fail()
    other, seen = fail("stubborn"), fail()
    assert set(entries()) == {seen, other}
    link = re.findall(r'<a href="([^"]+)">2 times', page_of(server, "/ui/inbox"))[0].replace("&amp;", "&")
    assert len(order_of(server, link.partition("?")[2])) == 2
    fail()  # nobody has seen it, so it stays
    act("aside", seen, note="the disk of <host 7>")
    page = page_of(server, "/ui/inbox")
    assert len(entries()) == 2
    assert "set aside before, and happened again: the disk of &lt;host 7&gt;" in page
    assert "2 times</a>" not in page
    assert "2 times" in page.partition('id="aside"')[2]
    act("again", other)
    assert len(server.client.get("/runs").json()["runs"]) == 5
    act("back", seen)
    assert "3 times</a>" in page_of(server, "/ui/inbox")
    assert server.client.post("/ui/inbox/actions", data={"action": "aside", "run_id": "none"}).status_code == 404


def test_chosen_failures_are_set_aside_and_the_others_left_alone(scripted: Served) -> None:
    failed, done = (scripted.ended(start_scripted(scripted, name)["run_id"]) for name in ("crashing", "chatting"))
    form = {"action": "aside", "run_id": [failed["run_id"], done["run_id"]], "note": "known"}
    answer = scripted.client.post("/ui/runs/actions", data=form)
    said = "1 run set aside; 1 run left alone, since they have not failed"
    assert unquote(answer.cookies["ao_said"]) == said
    assert "set aside: known" in page_of(scripted, "/ui/runs?status=failed")
    assert scripted.client.get("/ui/inbox/count").json()["count"] == "0"


def test_earlier_events_follow_one_another_without_gap_or_repetition(scripted: Served) -> None:
    run = scripted.ended(start_scripted(scripted, "many")["run_id"])
    events = scripted.client.get(f"/sessions/{run['session_id']}/log", params={"limit": 1000}).json()["events"]
    told = [one["id"] for one in events if one["event"]["event_type"] not in {"heartbeat", "usage", "tool_finished"}]
    for base in (f"/ui/runs/{run['run_id']}", f"/ui/sessions/{run['session_id']}"):
        page, found = page_of(scripted, base), list[str]()
        while True:
            found = [*entries_of(page), *found]
            earlier = re.search(r'\?until=([^"]+)"', page)
            if earlier is None:
                break
            page = page_of(scripted, f"{base}?until={earlier[1]}")
        assert found == told


def test_the_pieces_of_a_message_are_on_no_page_beside_or_before_the_whole(scripted: Served) -> None:
    scripted.add_agent({"name": "piecewise", "profile": str(MINIATURES / "speaks_in_many_pieces.py")})
    run = scripted.ended(start_scripted(scripted, "piecewise")["run_id"])
    base = f"/ui/runs/{run['run_id']}"
    newest = page_of(scripted, base)
    before = page_of(scripted, f"{base}?until={run['run_id']}.200")

    assert (newest.count("word0.0 "), newest.count("word1.0 ")) == (1, 1)
    assert "Earlier events" not in newest
    numbers = [[entry.partition("-")[2] for entry in entries_of(page)] for page in (newest, before)]
    assert numbers == [["1", "252", "503", "504"], ["1"]]


def test_every_page_with_its_assets_is_small(scripted: Served) -> None:
    ids = [start_scripted(scripted, name) for name in ("many", "hostile")]
    for one in ids:
        scripted.ended(one["run_id"])
    for path in ["/ui/runs", *(f"/ui/runs/{one['run_id']}" for one in ids)]:
        page = page_of(scripted, path)
        assets = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
        assert len(page.encode()) + sum(len(scripted.client.get(one).content) for one in assets) < MAX_BYTES


def test_files_of_pages_are_kept_until_a_release_has_others(scripted: Served) -> None:
    page = page_of(scripted, "/ui/runs")
    (style,) = re.findall(r'href="(/static/app.css[^"]+)"', page)
    assert "immutable" in scripted.client.get(style).headers["cache-control"]
    assert "cache-control" not in scripted.client.get("/static/app.css?old").headers


def test_metadata_is_shown_and_found(scripted: Served) -> None:
    run_id = start_scripted(scripted, "chatting", metadata={"ticket": "ABC-123"})["run_id"]
    assert "ABC-123" in page_of(scripted, f"/ui/runs/{run_id}")
    assert run_id in page_of(scripted, "/ui/runs?text=abc-123")
    assert run_id not in page_of(scripted, "/ui/runs?text=abc-124")


def test_downloads_have_everything_as_it_was_stored(scripted: Served) -> None:
    run = scripted.ended(start_scripted(scripted, "reviewer")["run_id"])
    base = f"/ui/runs/{run['run_id']}"
    lines = scripted.client.get(f"{base}/events.ndjson").text.splitlines()
    events = scripted.client.get(f"/sessions/{run['session_id']}/log").json()["events"]
    assert [httpx.Response(200, text=line).json() for line in lines] == [one["event"] for one in events]
    assert scripted.client.get(f"{base}/result.json").json() == {"approval": True}
    assert scripted.client.get(f"{base}/run.json").json()["run_id"] == run["run_id"]


def test_cost_is_told_by_day_and_agent(scripted: Served) -> None:
    scripted.ended(start_scripted(scripted, "reviewer")["run_id"])
    page = page_of(scripted, "/ui/usage")
    assert page.count("$0.5000") == 5  # all, its day, agent, model and profile
    assert page.count(">1,200<") == 4
    assert ", reviewer: 0.5</title>" in page
    assert '<desc id="chart-desc">One bar for each day (UTC)' in page
    assert '<th class="num">reviewer</th>' in page
    assert page_of(scripted, "/ui/usage?since=1h").count("$0.5000") == 5
    assert '<a href="/ui/runs?agent=reviewer&since=1h">' in page_of(scripted, "/ui/usage?since=1h").replace(
        "&amp;", "&"
    )


def test_an_error_is_a_page_for_browsers_and_json_for_others(scripted: Served) -> None:
    assert "Run not found" in page_of(scripted, "/ui/runs/run_0", 404)
    assert "Not Found" in page_of(scripted, "/nothing", 404)
    refused = scripted.client.get("/ui/runs", headers={**HTML, "host": "<b>example.com"})
    assert (refused.status_code, refused.headers["content-type"]) == (403, "text/html; charset=utf-8")
    assert "&lt;b&gt;example.com" in refused.text
    assert scripted.client.get("/ui/runs/run_0").json()["code"] == "run_not_found"
    assert scripted.client.get("/").json()["pages"] == "/ui/runs"


def test_a_form_leads_to_pages_of_the_server_only(scripted: Served) -> None:
    run_id = start_scripted(scripted, "waiting")["run_id"]
    for back in ("https://example.com/", "//example.com/", "/ui/\\example.com"):
        answer = scripted.client.post(f"/ui/runs/{run_id}/cancel", data={"back": back})
        assert answer.status_code == 422
    foreign = scripted.client.post(f"/ui/runs/{run_id}/cancel", headers={"origin": "https://example.com"})
    assert foreign.status_code == 403


def test_a_reader_sees_everything_and_can_do_nothing(share: Serve) -> None:
    server = share("--token")
    tokens = tokens_of(server.home)
    server.client.headers["authorization"] = f"Bearer {tokens['client']}"
    add_scripted(server, "chatting")
    run = server.ended(start_scripted(server, "chatting")["run_id"])
    paths = ["/ui/runs", f"/ui/runs/{run['run_id']}", f"/ui/sessions/{run['session_id']}", "/ui/inbox"]
    with httpx.Client(base_url=server.url, headers=HTML, timeout=60) as reader:
        assert reader.post("/login", data={"token": tokens["reader"]}).status_code == 303
        for path in paths:
            page = reader.get(path)
            assert page.status_code == 200
            assert re.findall('method="post" action="([^"]+)"', page.text) == ["/logout"]
        assert reader.post(f"/ui/runs/{run['run_id']}/again").status_code == 403
    with httpx.Client(base_url=server.url, headers=HTML, timeout=60) as nobody:
        assert nobody.get("/ui/runs").headers["location"] == "/login?back=/ui/runs"


@pytest.mark.parametrize(
    "query", ["until=x.y", "until=run.99999999999999999999", "before=-1", "status=odd", "agent=%f0"]
)
def test_an_odd_address_is_no_error_of_the_server(scripted: Served, query: str) -> None:
    run = scripted.ended(start_scripted(scripted, "chatting")["run_id"])
    for path in ("/ui/runs", "/ui/sessions", f"/ui/runs/{run['run_id']}", f"/ui/sessions/{run['session_id']}"):
        assert scripted.client.get(f"{path}?{query}", headers=HTML).status_code < 500
