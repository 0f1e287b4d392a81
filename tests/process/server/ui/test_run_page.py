"""The page of a run tells what happened: calls on a time axis, one entry each, and two runs side by side."""

import re

import pytest
from playwright.sync_api import expect

from tests.process.server.conftest import Serve, Served
from tests.process.server.ui.conftest import Open, add_scripted, start_scripted

SCRIPT = [
    {
        "messages": ["I look around."],
        "tools": [
            {"name": "Read", "input": {"path": "a.txt"}, "output": "one", "seconds": 0.2},
            {"name": "Bash", "input": {"command": "false"}, "error": "exit 1", "seconds": 0},
        ],
        "text": "The whole answer.",
    }
]


@pytest.fixture
def looking(share: Serve) -> Served:
    """A server with an agent that calls two tools."""
    server = share()
    server.add_agent({"name": "looking", "profile": "scripted", "executor_config": {"script": {"answers": SCRIPT}}})
    return server


def page_of(server: Served, path: str) -> str:
    return server.client.get(path, headers={"Accept": "text/html"}).raise_for_status().text


def test_a_call_is_one_entry_with_its_place_on_the_axis_of_its_run(looking: Served) -> None:
    run_id = start_scripted(looking, "looking")["run_id"]
    looking.ended(run_id)
    html = page_of(looking, f"/ui/runs/{run_id}")
    (call,) = re.findall(
        r'<li class="entry tool[^>]*>(?:(?!</li>\n<li class="entry ).)*?a\.txt.*?</svg>', html, re.DOTALL
    )
    assert "one" in call
    assert "completed" in call
    found = re.search(r'viewBox="0 0 (\d+) 10".*x1="(\d+)" x2="(\d+)"', call)
    assert found is not None
    span, begin, end = map(int, found.groups())
    assert 0 <= begin < end <= span
    assert len(re.findall(r'<li class="entry tool', html)) == 2
    assert "style=" not in html  # the policy for contents refuses it


def test_a_result_stands_twice_at_most(looking: Served) -> None:
    ids = start_scripted(looking, "looking")
    looking.ended(ids["run_id"])
    for path in (f"/ui/runs/{ids['run_id']}", f"/ui/sessions/{ids['session_id']}"):
        assert page_of(looking, path).count("The whole answer.") == 2, path


def test_times_are_utc_and_say_so_without_javascript(looking: Served) -> None:
    run_id = start_scripted(looking, "looking")["run_id"]
    looking.ended(run_id)
    assert re.search(r"<time [^>]*>\d\d:\d\d:\d\d UTC</time>", page_of(looking, f"/ui/runs/{run_id}"))


def test_a_link_to_an_event_leads_to_the_page_that_has_it(share: Serve) -> None:
    server = share()
    add_scripted(server, "many")
    run_id = start_scripted(server, "many")["run_id"]
    server.ended(run_id)
    log = server.client.get(f"/runs/{run_id}").json()["session_id"]
    events = server.client.get(f"/sessions/{log}/log", params={"limit": 1000}).json()["events"]
    early = next(one["id"] for one in events if one["event"]["event_type"] == "tool_started")
    assert f'id="e{early}"' not in page_of(server, f"/ui/runs/{run_id}")
    html = page_of(server, f"/ui/runs/{run_id}?at={early}")
    assert f'id="e{early}"' in html
    assert f'href="/ui/runs/{run_id}?at={early}#e{early}"' in html


def test_two_runs_are_compared(scripted: Served) -> None:
    first, second = (start_scripted(scripted, name)["run_id"] for name in ("reviewer", "stubborn"))
    for one in (first, second):
        scripted.ended(one)
    assert f"/ui/runs/compare?a={first}" in page_of(scripted, f"/ui/runs/{first}")
    assert "No other run of this agent" in page_of(scripted, f"/ui/runs/compare?a={first}")
    html = page_of(scripted, f"/ui/runs/compare?run_id={first}&run_id={second}&action=")
    for word in ("$0.5000", "not valid", "output_schema_validation_failed", 'class="differs"', 'class="del"'):
        assert word in html, word
    assert scripted.client.get(f"/ui/runs/compare?a={first}&b=run_none").status_code == 404
    assert "Choose two runs" in page_of(scripted, "/ui/runs/compare")


def test_entries_are_chosen_and_searched_and_times_are_of_the_reader(looking: Served, open_page: Open) -> None:
    run_id = start_scripted(looking, "looking")["run_id"]
    looking.ended(run_id)
    page = open_page(f"{looking.url}/ui/runs/{run_id}", timezone_id="Asia/Tokyo", locale="en-GB")
    time = page.locator("#timeline time").first
    expect(time).to_have_text(re.compile(r"^\d\d:\d\d:\d\d GMT\+9$"))
    assert re.search(r"20\d\d.* GMT\+9, .* ago; 20\d\d-.*", time.get_attribute("title") or "")
    expect(page.locator("#zone")).to_have_text("Times in Asia/Tokyo")
    page.get_by_label("Show").select_option("calls")
    expect(page.locator("#timeline > li:visible")).to_have_count(2)
    page.get_by_label("Search").last.fill("A.TXT")
    expect(page.locator("#timeline > li:visible")).to_have_count(1)
    expect(page.locator("#found")).to_contain_text("1 of ")
    page.goto(f"{looking.url}/ui/runs")
    page.locator(f'input[value="{run_id}"]').check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", name="Compare runs")).to_be_visible()
