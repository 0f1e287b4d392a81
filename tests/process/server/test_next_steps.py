"""The pages lead a person on who has read no document: each page has a link, a word or an example for the next step."""

import html
import re

from tests.process.server.conftest import Serve, Served, wait_for

HTML = {"Accept": "text/html"}
NOT_BOOLEAN = {"answers": [{"json": {"approval": "maybe"}}] * 2}
SCHEMA = {"type": "object", "required": ["approval"], "properties": {"approval": {"type": "boolean"}}}


def page_of(server: Served, path: str) -> str:
    answer = server.client.get(path, headers=HTML)
    assert answer.status_code == 200, path
    return answer.text


def test_the_navigation_leads_to_usage_actions_and_the_description_of_the_api(share: Serve) -> None:
    server = share("--no-worker")
    page = page_of(server, "/ui/runs")
    found = re.findall(r'<a href="([^"]+)"[^>]*>(Usage|Actions|API)', page)
    assert found == [("/ui/usage", "Usage"), ("/ui/actions", "Actions"), ("/openapi.json", "API")]
    for address, name in found[:2]:
        assert f"<h1>{name}</h1>" in page_of(server, address)
    assert server.client.get("/openapi.json", headers=HTML).json()["openapi"]


def test_the_pages_say_how_a_run_asks_a_person_and_the_example_is_a_profile_that_does(serve: Serve) -> None:
    server = serve("--no-worker")
    for path in ("/ui/inbox", "/ui/agents/_new"):
        assert 'href="/ui/workers#profiles"' in page_of(server, path)
    section = page_of(server, "/ui/workers").partition('id="profiles"')[2]
    place = re.findall(r"saved as <code>(.*?)</code>", section)[0]
    written = html.unescape(re.findall(r"<pre[^>]*>(.*?)</pre>", section, re.DOTALL)[0])
    assert place == str(server.home / "profiles/ask-first.yaml")
    (server.home / "profiles").mkdir()
    (server.home / "profiles/ask-first.yaml").write_text(written)
    section = page_of(server, "/ui/workers").partition('id="profiles"')[2]
    assert re.findall(r"<td[^>]*>(.*?)</td>", section) == ["ask-first", "claude-code", "one_shot", "yes"]


def test_an_open_page_of_a_failed_run_gets_the_refused_answers_and_says_nothing_three_times(share: Serve) -> None:
    server = share()
    server.add_agent(
        {
            "name": "approver",
            "profile": "scripted",
            "output_schema": SCHEMA,
            "executor_config": {"script": NOT_BOOLEAN},
            "default_output_schema_options": {"max_retries": 1},
        }
    )
    run_id = server.start("approver", {"prompt": "Approve"})["run_id"]
    stream = server.client.get(f"/ui/runs/{run_id}/stream").text  # it ends with the run
    head = stream[stream.rindex('id="head"') :]
    assert head.count("<summary>The answer</summary>") == 2
    assert "/ui/agents/approver#output" in head
    page = wait_for(lambda: page_of(server, f"/ui/runs/{run_id}"))
    for attempt in ("attempt 1", "attempt 2"):
        assert page.count(f"{attempt} of 2") == 1
    problem = "is not of type &#34;boolean&#34;"
    assert page.count(problem) == 4  # of two answers: in the panel of the contract, and where they were given
    assert page.count('<span class="who">Session</span>') == 1


def test_a_problem_of_a_field_of_a_form_has_the_name_of_the_field(share: Serve) -> None:
    server = share("--no-worker")
    page = server.client.post("/ui/agents/_new", data={"type": "autonomous"}, headers=HTML).text
    assert re.findall(r'data-of="name">\s*<li class="error">(.*?)</li>', page) == ["name is missing"]


def test_an_agent_leads_to_its_runs_and_an_answer_to_the_run_that_goes_on(share: Serve) -> None:
    server = share("--no-worker")
    server.add_agent({"name": "triage", "system_prompt": "Sort."})
    assert 'href="/ui/runs?agent=triage"' in page_of(server, "/ui/agents/triage")
    assert '<span class="sub">claude-code</span>' in page_of(server, "/ui/agents")
