"""A run asks a person, who answers in a real browser."""

from playwright.sync_api import expect

from tests.process.server.conftest import Serve
from tests.process.server.ui.conftest import Open
from tests.process.server.ui.test_looks import serious_faults

SCRIPT = {
    "answers": [
        {
            "tools": [{"name": "Bash", "input": {"command": "rm -r build"}, "output": "done", "ask": True}],
            "text": "Clean.",
        }
    ]
}
PROFILE = "executor: scripted\ninput: {wait_seconds: 3600}\n"


def test_a_run_asks_and_goes_on_once_it_is_allowed_on_its_page(share: Serve, open_page: Open, tmp_path: object) -> None:
    server = share()
    (server.home / "profiles").mkdir(exist_ok=True)
    (server.home / "profiles/asks.yaml").write_text(PROFILE)
    server.add_agent({"name": "cleaner", "profile": "asks", "executor_config": {"script": SCRIPT}})
    run_id = server.start("cleaner", {"prompt": "Clean up"})["run_id"]
    page = open_page(f"{server.url}/ui/runs/{run_id}")
    request = page.get_by_role("region", name="Request")
    expect(request).to_contain_text("May Bash be called?")
    expect(request).to_contain_text("command: rm -r build")
    assert serious_faults(page) == []
    page.goto(f"{server.url}/ui/inbox")
    expect(page.get_by_role("region", name="Request")).to_contain_text(run_id)
    assert serious_faults(page) == []
    page.goto(f"{server.url}/ui/runs/{run_id}")

    request.get_by_role("button", name="Allow once").click()

    expect(page.locator("#timeline .end .who")).to_have_text("Result")
    expect(page.get_by_role("region", name="Request")).to_contain_text("accepted “Allow once” by a client of ao serve")
    assert server.ended(run_id)["status"] == "completed"
    page.goto(f"{server.url}/ui/inbox")
    expect(page.get_by_role("heading", name="Nothing needs you")).to_be_visible()
