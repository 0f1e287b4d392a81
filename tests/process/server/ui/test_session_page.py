"""The page of a session while it goes on, ends, asks and is resumed by others, in a real browser."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.process.server.conftest import Serve, Served, wait_for
from tests.process.server.ui.conftest import Open, start_scripted

HTML = {"accept": "text/html"}
ASKS: dict[str, Any] = {
    "answers": [
        {"tools": [{"name": "Bash", "input": {"command": "make"}, "output": "ok", "ask": True}], "text": "Made."},
        {"text": "Went on."},
    ]
}


def share_asking(share: Serve, settings: str) -> Served:
    """Return a server with an agent that asks, under a profile with these settings of `input`."""
    server = share()
    (server.home / "profiles").mkdir(exist_ok=True)
    profile = "parks" if "park" in settings else "asks"  # a worker reads a profile once
    (server.home / f"profiles/{profile}.yaml").write_text(f"executor: scripted\ninput: {settings}\n")
    server.add_agent({"name": "maker", "profile": profile, "executor_config": {"script": ASKS}})
    return server


def asked(server: Served) -> str:
    """Start the agent that asks, wait for its request, and return the id of its session."""
    ids = server.start("maker", {"prompt": "Build it"})
    wait_for(lambda: server.client.get("/inputs").json()["inputs"])
    return str(ids["session_id"])


def test_the_form_appears_when_the_first_run_ends_and_keeps_what_is_typed(scripted: Served, open_page: Open) -> None:
    ids = start_scripted(scripted, "counting")
    page = open_page(f"{scripted.url}/ui/sessions/{ids['session_id']}")
    resume = page.get_by_role("button", name="Resume")
    expect(resume).to_be_disabled()
    expect(resume).to_be_enabled()
    assert scripted.run(ids["run_id"])["status"] == "completed"
    page.get_by_label("Continue the session").fill("What I think of")
    page.locator("#head dt").first.click()  # the text has to stay, also without the focus

    body = {"type": "resume_session", "session_id": ids["session_id"], "parameters": {"prompt": "Of somebody else"}}
    scripted.client.post("/runs", json=body).raise_for_status()
    expect(page.locator("#head tbody tr")).to_have_count(2)
    expect(page.locator("#head tbody .badge").nth(1)).to_have_text("failed")  # the script has one answer

    expect(page.get_by_label("Continue the session")).to_have_value("What I think of")
    expect(resume).to_be_enabled()


def test_a_refused_resume_shows_the_page_with_its_text_and_the_reason(scripted: Served) -> None:
    ids = start_scripted(scripted, "chatting")
    scripted.ended(ids["run_id"])
    address = f"/ui/sessions/{ids['session_id']}/resume"
    files = {"attachments": ("a.txt", b"", "no type")}
    answer = scripted.client.post(address, data={"prompt": "Look <here>"}, files=files, headers=HTML)
    assert answer.status_code == 422
    assert "Look &lt;here&gt;</textarea>" in answer.text
    assert 'id="prompt-problems"' in answer.text


def test_a_request_is_answered_on_the_page_of_its_session(share: Serve, open_page: Open) -> None:
    server = share_asking(share, "{wait_seconds: 3600}")
    page = open_page(f"{server.url}/ui/sessions/{asked(server)}")
    request = page.get_by_role("region", name="Request")
    expect(request).to_contain_text("May Bash be called?")
    expect(page.locator("#head tbody .badge")).to_have_text("asks")

    request.get_by_role("button", name="Allow once").click()

    expect(page.locator("#head tbody .badge")).to_have_text("completed")
    expect(request).to_have_count(0)
    expect(page.get_by_role("region", name="Result")).to_contain_text("Made.")


def test_an_answered_parked_run_leads_to_the_run_that_goes_on(share: Serve, open_page: Open) -> None:
    server = share_asking(share, "{wait_seconds: 0.1, then: park}")
    run_id = server.start("maker", {"prompt": "Build it"})["run_id"]
    server.ended(run_id)
    page = open_page(f"{server.url}/ui/runs/{run_id}")
    expect(page.locator("#head .badge").first).to_have_text("asks")
    page.get_by_role("button", name="Allow once").click()

    expect(page.locator("#head .badge").first).to_have_text("parked")
    parked = page.get_by_role("region", name="Parked")
    expect(parked).to_contain_text("A person has answered")
    expect(page.get_by_role("region", name="Failure")).to_have_count(0)
    parked.get_by_role("link").click()
    expect(page.locator("#timeline")).to_contain_text("It goes on with the answer of a person.")


@pytest.mark.parametrize(("agent", "verdict"), [("reviewer", "valid"), ("stubborn", "failed")])
def test_a_session_tells_validation_errors_and_retries(scripted: Served, agent: str, verdict: str) -> None:
    ids = start_scripted(scripted, agent)
    scripted.ended(ids["run_id"])
    page = scripted.client.get(f"/ui/sessions/{ids['session_id']}").text
    facts = page.partition("<dt>Output schema</dt>")[2].partition("</div>")[0]
    assert f">{verdict}</span>" in facts
    assert "1 retry" in facts
    assert "$.approval" in page
    assert ('aria-labelledby="result"' in page) is (verdict == "valid")


def test_a_run_that_waits_for_a_person_stands_above_and_is_counted(share: Serve, open_page: Open) -> None:
    server = share_asking(share, "{wait_seconds: 3600}")
    asked(server)
    page = open_page(f"{server.url}/ui/runs")
    need = page.get_by_role("region", name="Needs a person")
    expect(need.locator(".badge")).to_have_text("asks")
    expect(need).to_contain_text("1 in the inbox")
    expect(page.locator("#inbox-count")).to_have_text("1")
    expect(page).to_have_title("(1) Runs · AO")
    (run,) = server.client.get("/runs").json()["runs"]
    server.client.post(f"/runs/{run['run_id']}/stop").raise_for_status()
    server.ended(run["run_id"])


def test_all_failures_of_a_kind_are_run_again_at_once(scripted: Served, open_page: Open) -> None:
    for _ in range(2):
        scripted.ended(start_scripted(scripted, "crashing")["run_id"])
    page = open_page(f"{scripted.url}/ui/inbox")
    page.get_by_role("button", name="Run all 2 again").click()
    expect(page.get_by_role("status")).to_have_text("2 runs run again")
    assert len(scripted.client.get("/runs").json()["runs"]) == 4
