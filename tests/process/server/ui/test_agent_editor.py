"""The editor of agents and the dialog that runs them, in a real browser."""

import json
import re
from collections.abc import Callable
from typing import Any, Final

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.process.server.conftest import EXAMPLES, Serve, Served
from tests.process.server.ui.conftest import Open, chromium
from tests.process.server.ui.test_looks import check_page

PATHS: Final = (
    "/ui/agents", "/ui/agents/_new", "/ui/agents/_new?example=true", "/ui/agents/triage", "/ui/agents/triage/run",
    "/ui/agents/triage/delete", "/ui/schemas", "/ui/schemas/_new", "/ui/schemas/review-1", "/login",
)  # fmt: skip
MOST_TABS: Final = 60
MAX_BYTES: Final = 200_000


@pytest.fixture
def server(share: Serve) -> Served:
    chromium()
    return share()


def tab_to(page: Page, wanted: Locator, key: str = "Tab") -> None:
    """Move the focus by keyboard until it is there."""
    for _ in range(MOST_TABS):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{wanted} is not reached by {key}")


def leave_code(page: Page) -> None:
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")


def problems(page: Page, name: str) -> Locator:
    return page.locator(f"#{name}-problems .error")


def add_strict(server: Served, answer: dict[str, Any]) -> None:
    """Create an agent that always gives the same answer, and whose schema demands another one."""
    schema = {"type": "object", "required": ["level"], "properties": {"level": {"enum": ["low", "high"]}}}
    script = {"answers": [{"json": answer}], "repeat": True}
    server.add_agent(
        {"name": "strict", "profile": "scripted", "output_schema": schema, "executor_config": {"script": script}}
    )


def test_from_nothing_to_a_structured_result_in_four_clicks(server: Served, open_page: Open) -> None:
    page = open_page(f"{server.url}/ui/runs")
    page.get_by_role("link", name="Go to the agents").click()
    page.get_by_role("link", name="Begin with an example").click()
    page.get_by_role("button", name="Save and run").click()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page).to_have_url(re.compile("/ui/runs/run_"))
    expect(page.locator("#head .badge.completed")).to_be_visible(timeout=60_000)
    expect(page.locator("#head .json")).to_contain_text("critical")


def test_an_agent_is_created_by_keyboard_alone(server: Served, open_page: Open) -> None:
    page = open_page(f"{server.url}/ui/agents")
    tab_to(page, page.get_by_role("link", name="New agent"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/_new")
    tab_to(page, page.get_by_role("tab", name="General"))
    tab_to(page, page.get_by_label("Name"))
    page.keyboard.type("typed")
    tab_to(page, page.get_by_role("tab", name="General"), "Shift+Tab")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Input Schema")).to_be_focused()
    expect(page.get_by_role("tabpanel", name="Input Schema")).to_be_visible()
    expect(page.get_by_role("tabpanel", name="General")).to_be_hidden()
    page.keyboard.press("End")
    expect(page.get_by_role("tab", name="MCP Servers")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    tab_to(page, page.get_by_label("JSON Schema of the answer"))
    page.keyboard.type('{\n"type":')
    page.keyboard.press("Tab")
    page.keyboard.type('"object"\n}')
    assert page.get_by_label("JSON Schema of the answer").input_value() == '{\n  "type":  "object"\n}'
    leave_code(page)
    tab_to(page, page.get_by_role("button", name="Save", exact=True))
    page.keyboard.press("Enter")
    expect(page.locator(".alert.good")).to_contain_text("Saved")
    agent = server.client.get("/agents/typed").json()
    assert agent["output_schema"] == {"type": "object"}


def test_a_fault_in_a_schema_is_shown_with_its_path_as_one_types(server: Served, open_page: Open) -> None:
    page = open_page(f"{server.url}/ui/agents/_new?example=true")
    page.get_by_role("tab", name="Output Schema").click()
    schema = page.get_by_label("JSON Schema of the answer")
    good = schema.input_value()
    schema.fill(good.replace('"string"', '"strng"', 1))
    expect(problems(page, "output_schema")).to_contain_text("$.properties.severity.type")
    expect(schema).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("tab", name="Output Schema")).to_contain_text("1 problems")
    expect(page.locator("#output .gutter .bad")).to_have_text("11")
    page.get_by_role("button", name="Go to line 11").click()
    expect(schema).to_be_focused()
    assert (
        schema.evaluate("area => area.value.slice(area.selectionStart, area.selectionEnd)").strip()
        == '"type": "strng",'
    )
    schema.fill(good.replace('"object",', '"object"', 1))
    expect(problems(page, "output_schema")).to_contain_text("line 3, column 3")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#summary")).to_contain_text("1 problem")
    assert page.get_by_label("JSON Schema of the answer").input_value() == good.replace('"object",', '"object"', 1)
    page.get_by_label("JSON Schema of the answer").fill(good)
    expect(page.locator("#summary")).to_contain_text("No problems")
    expect(problems(page, "output_schema")).to_have_count(0)


def test_a_schema_is_validated_sampled_and_previewed(server: Served, open_page: Open) -> None:
    page = open_page(f"{server.url}/ui/agents/_new")
    page.get_by_role("tab", name="Input Schema").click()
    schema = page.get_by_label("JSON Schema of the parameters")
    schema.fill(
        '{"type": "object", "required": ["n"],'
        ' "properties": {"n": {"type": "integer", "minimum": 5}, "s": {"enum": ["a"]}}}'
    )
    page.get_by_role("button", name="Validate Schema").click()
    expect(page.locator("#input-state")).to_contain_text("Valid JSON Schema, Draft-7: 2 fields, 1 required")
    page.get_by_role("button", name="Sample values").click()
    value = page.get_by_role("tabpanel").get_by_label("Value to try")
    expect(page.locator("#input-verdict")).to_contain_text("The value fits the schema")
    assert json.loads(value.input_value()) == {"n": 5, "s": "a"}
    value.fill('{"n": 1}')
    expect(page.locator("#input-verdict")).to_contain_text("$.n 1 is less than the minimum of 5")
    page.get_by_role("button", name="Preview form").click()
    expect(page.locator("#preview").get_by_label("n required")).to_be_visible()
    schema.fill('{"type": "object", "properties": {"other": {"type": "string"}}}')  # the preview follows
    expect(page.locator("#preview").get_by_label("other")).to_be_visible()
    page.get_by_role("button", name="Format").click()
    assert schema.input_value().startswith('{\n  "type"')
    schema.fill('{"not": {}}')
    page.get_by_role("button", name="Sample values").click()
    expect(page.locator("#input-verdict")).to_contain_text("No sample was found that fits")


def test_a_failed_validation_is_mended_by_another_schema(server: Served, open_page: Open) -> None:
    add_strict(server, {"level": "medium"})
    page = open_page(f"{server.url}/ui/agents/strict/run")
    page.get_by_label("prompt").fill("How bad is it?")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#head .badge.failed")).to_be_visible(timeout=60_000)
    expect(page.locator("#head")).to_contain_text('$.level: "medium" is not one of')
    page.goto(f"{server.url}/ui/agents/strict#output")
    schema = page.get_by_label("JSON Schema of the answer")
    schema.fill(schema.input_value().replace('"high"', '"medium"'))
    page.get_by_role("button", name="Save and run").click()
    page.get_by_label("prompt").fill("And now?")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#head .badge.completed")).to_be_visible(timeout=60_000)
    expect(page.locator("#head .json")).to_contain_text("medium")


def test_the_editor_works_without_javascript_and_loses_no_text(server: Served, open_page: Open) -> None:
    page = open_page(f"{server.url}/ui/agents/_new", java_script_enabled=False)
    page.get_by_label("Name").fill("plain")
    page.get_by_label("JSON Schema of the parameters").fill('{"type": "strng"}\n<\u202e&amp;')
    page.locator("#input").get_by_role("button", name="Validate Schema").click()
    expect(problems(page, "input_schema")).to_contain_text("line 2, column 1: Extra data")
    assert page.get_by_label("JSON Schema of the parameters").input_value() == '{"type": "strng"}\n<\u202e&amp;'
    page.get_by_label("JSON Schema of the parameters").fill('{"type": "strng"}')
    page.get_by_role("button", name="Save", exact=True).click()
    expect(problems(page, "input_schema")).to_contain_text("$.type")
    assert page.get_by_label("Name").input_value() == "plain"
    page.get_by_label("JSON Schema of the parameters").fill('{"type": "object", "required": ["a"]}')
    page.locator("#input").get_by_role("button", name="Sample values").click()
    assert json.loads(page.locator("#input_sample").input_value()) == {"a": "text"}
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".alert.good")).to_contain_text("Saved")
    assert server.client.get("/agents/plain").json()["parameters_schema"] == {"type": "object", "required": ["a"]}


def test_a_change_of_somebody_else_is_not_overwritten_unseen(server: Served, open_page: Open) -> None:
    add_strict(server, {})
    page = open_page(f"{server.url}/ui/agents/strict")
    page.get_by_label("Description").fill("mine")
    server.client.patch("/agents/strict", json={"description": "theirs"}).raise_for_status()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(problems(page, "name")).to_contain_text("somebody else has changed the agent")
    assert server.client.get("/agents/strict").json()["description"] == "theirs"
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".alert.good")).to_be_visible()
    assert server.client.get("/agents/strict").json()["description"] == "mine"


def test_the_text_of_a_deleted_agent_stays_and_can_be_saved_anew(server: Served, open_page: Open) -> None:
    server.add_agent({"name": "gone", "description": "first", "profile": "no-such-profile"})
    page = open_page(f"{server.url}/ui/agents/gone")
    expect(page.locator("#remarks")).to_contain_text("no profile or executor of this host is called 'no-such-profile'")
    page.get_by_label("Description").fill("second")
    server.client.delete("/agents/gone").raise_for_status()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(problems(page, "name")).to_contain_text("somebody has deleted the agent")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".alert.good")).to_contain_text("Saved")
    assert server.client.get("/agents/gone").json()["description"] == "second"


def test_an_agent_is_duplicated_deactivated_and_deleted(server: Served, open_page: Open) -> None:
    add_strict(server, {})
    page = open_page(f"{server.url}/ui/agents")

    def choose(name: str) -> None:
        page.get_by_label("More about strict", exact=True).click()
        page.locator(".menu[open]").get_by_text(name, exact=True).click()

    choose("Duplicate")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("h1")).to_have_text("strict-copy")
    page.goto(f"{server.url}/ui/agents")
    choose("Deactivate")
    expect(page.locator("tr", has=page.get_by_role("link", name="strict", exact=True))).to_contain_text("inactive")
    page.goto(f"{server.url}/ui/agents/strict/run")
    expect(page.locator("main")).to_contain_text("strict is inactive")
    page.goto(f"{server.url}/ui/agents")
    choose("Delete")
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    assert [agent["name"] for agent in server.client.get("/agents").json()] == ["strict-copy"]


def test_the_list_counts_the_runs_of_each_agent(share: Serve, shared_store: str) -> None:
    server = share("--no-worker", store=shared_store)
    add_strict(server, {})
    for _ in range(2):
        server.start("strict", {"prompt": "Go"})
    page = server.client.get("/ui/agents", headers={"accept": "text/html"}).text
    assert 'aria-label="2 runs of strict">2</a>' in page


def test_the_dialog_shows_problems_at_their_fields_and_keeps_the_rest(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/ui/agents/echo/run")
    page.get_by_label("times").fill("many")
    page.get_by_label("tags").fill("a\nb")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was queued")
    message = page.get_by_label("message required")
    expect(message).to_be_focused()
    expect(page.locator(".field", has=message)).to_contain_text("is required")
    expect(page.locator(".field", has=page.get_by_label("times"))).to_contain_text('"many" is not of type "integer"')
    message.fill("Hi")
    page.get_by_label("times").fill("2")
    page.get_by_text("Options").click()
    page.get_by_label("Priority").fill("7")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page).to_have_url(re.compile("/ui/runs/run_"))
    run = served.ended(page.url.rpartition("/")[2])
    assert run["parameters"] == {"message": "Hi", "times": 2, "tags": ["a", "b"]}
    assert (run["status"], run["priority"]) == ("completed", 7)


@pytest.mark.parametrize(
    ("field", "text", "said"),
    [
        ("priority", "high", "valid integer"),
        ("priority", "5000", "less than or equal to 1000"),
        ("project_dir", "here", "expected an absolute path"),
        ("output_schema", '{"type": "objct"}', "$.type"),
        ("output_schema", "{", "not JSON"),
        ("output_schema_options", '{"max_retries": 99}', "max_retries"),
        ("raw", "[1]", "expected a JSON object"),
        ("raw", '{"message"', "not JSON: line 1"),
    ],
)
def test_an_option_that_is_refused_is_told_at_its_field(served: Served, field: str, text: str, said: str) -> None:
    served.add_agent({"name": "free", "parameters_schema": {"type": "object"}})
    agent = "free" if field.startswith("output_schema") else "echo"
    answer = served.client.post(f"/ui/agents/{agent}/run", data={"$.message": "Hi", field: text})
    assert answer.status_code == 422
    assert said in re.sub(r".*?" + f'id="{field}-problems">', "", answer.text, count=1, flags=re.DOTALL)
    assert served.client.get("/runs").json()["runs"] == []


def test_parameters_can_be_written_as_json(served: Served) -> None:
    answer = served.client.post("/ui/agents/echo/run", data={"$.message": "no", "raw": '{"message": "yes"}'})
    assert answer.status_code == 303
    assert served.run(answer.headers["location"].rpartition("/")[2])["parameters"] == {"message": "yes"}


def test_a_form_that_is_sent_twice_queues_one_run(served: Served) -> None:
    form = {"$.message": "Hi", "key": "k1"}
    sent = [served.client.post("/ui/agents/echo/run", data=form).headers["location"] for _ in range(2)]
    other = served.client.post("/ui/agents/echo/run", data={**form, "$.message": "Ho"}).headers["location"]
    assert sent[0] == sent[1] != other
    assert len(served.client.get("/runs").json()["runs"]) == 2


def test_a_run_can_ask_for_a_named_schema(server: Served, open_page: Open) -> None:
    server.client.post("/schemas", json={"name": "level-1", "schema": {"required": ["level"]}}).raise_for_status()
    script = {"answers": [{"json": {"level": 3}}]}
    server.add_agent({"name": "free", "profile": "scripted", "executor_config": {"script": script}})
    page = open_page(f"{server.url}/ui/agents/free/run")
    page.get_by_label("prompt").fill("Go")
    page.get_by_text("Options").click()
    page.get_by_label("Output schema").select_option("level-1")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#head .badge.completed")).to_be_visible(timeout=60_000)
    page.goto(f"{server.url}/ui/schemas/level-1")
    expect(page.locator(".alert")).to_contain_text("It cannot be deleted: 1 run used schema 'level-1'")
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)
    assert server.client.post("/ui/schemas/level-1/delete").status_code == 409


def test_a_run_can_ask_for_a_schema_of_its_own_and_its_retries(server: Served) -> None:
    script = {"answers": [{"json": {"level": "high"}}, {"json": {"level": 3}}]}
    server.add_agent({"name": "free", "profile": "scripted", "executor_config": {"script": script}})
    schema = '{"type": "object", "properties": {"level": {"type": "integer"}}}'

    def status(options: str) -> str:
        form = {"$.prompt": "Go", "output_schema": schema, "output_schema_options": options}
        sent = server.client.post("/ui/agents/free/run", data=form)
        assert sent.status_code == 303, sent.text
        return str(server.ended(sent.headers["location"].rpartition("/")[2])["status"])

    assert [status('{"max_retries": 0}'), status("")] == ["failed", "completed"]
    listed = server.client.get("/ui/sessions").text
    assert '>valid</span> <span class="sub wide">1 retry</span>' in listed
    assert ">failed</span>" in listed
    assert "$.level" in listed


def test_mcp_servers_have_a_tab_with_their_problems(server: Served, open_page: Open) -> None:
    page = open_page(f"{server.url}/ui/agents/_new")
    page.get_by_label("Name").fill("served")
    tab = page.get_by_role("tab", name="MCP Servers")
    tab.click()
    page.get_by_label("MCP servers, as JSON").fill('{"files": {"type": "stdio"}}')
    expect(problems(page, "mcp_servers")).to_contain_text("command")
    expect(tab).to_contain_text("1 problems")
    page.get_by_label("MCP servers, as JSON").fill('{"files": {"type": "stdio", "command": "mcp-files"}}')
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".alert.good")).to_contain_text("Saved")
    servers = {"files": {"type": "stdio", "command": "mcp-files"}}
    assert server.client.get("/agents/served").json()["mcp_servers"] == servers
    expect(page.get_by_label("MCP servers, as JSON")).to_have_value(json.dumps(servers, indent=2))


def test_a_named_schema_is_created_with_checks_and_deleted(server: Served, open_page: Open) -> None:
    page = open_page(f"{server.url}/ui/schemas")
    page.get_by_role("link", name="New schema").click()
    page.get_by_label("Name").fill("review 1")
    page.get_by_label("JSON Schema").fill('{"type": "intger"}')
    expect(problems(page, "output_schema")).to_contain_text("$.type")
    page.get_by_label("JSON Schema").fill('{"type": "integer"}')
    expect(problems(page, "output_schema")).to_have_count(0)
    page.get_by_role("button", name="Create").click()
    expect(problems(page, "name")).to_contain_text("cannot be the name of a schema")
    assert page.get_by_label("JSON Schema").input_value() == '{"type": "integer"}'
    page.get_by_label("Name").fill("review-1")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("pre")).to_contain_text('"integer"')
    page.get_by_role("button", name="Delete").click()
    expect(page.locator(".empty")).to_contain_text("No schema yet")


def test_no_page_has_a_serious_fault(server: Served, open_page: Open) -> None:
    page = open_page("about:blank")
    for path in ("/ui/agents", "/ui/schemas"):
        check_page(page, f"{server.url}{path}")
    example = json.loads((EXAMPLES.parents[1] / "runner/ao_server/pages/example-agent.json").read_text())
    server.add_agent({**example, "description": "long " * 60, "tags": ["a" * 100, "<b>"]})
    server.client.post("/schemas", json={"name": "review-1", "schema": {}}).raise_for_status()
    for path in PATHS:
        check_page(page, f"{server.url}{path}")
        assert len(server.client.get(path, headers={"accept": "text/html"}).content) < MAX_BYTES


def test_each_tab_and_the_preview_have_no_serious_fault(server: Served, open_page: Open) -> None:
    def look(page: Page, show: Callable[[Page], None]) -> None:
        from tests.process.server.ui.test_looks import serious_faults

        show(page)
        assert serious_faults(page) == []

    def show_input(page: Page) -> None:
        page.get_by_role("tab", name="Input Schema").click()
        page.get_by_role("button", name="Preview form").click()
        expect(page.locator("#preview fieldset")).to_be_visible()

    def show_faults(page: Page) -> None:
        page.get_by_role("tab", name="Output Schema").click()
        page.get_by_label("JSON Schema of the answer").fill("{")
        expect(problems(page, "output_schema")).to_have_count(1)

    for scheme in ("light", "dark"):
        page = open_page(f"{server.url}/ui/agents/_new?example=true", color_scheme=scheme)
        look(page, show_input)
        look(page, show_faults)
