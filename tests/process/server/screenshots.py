"""Take the screenshots of docs/pages.md: eight pages of `ao serve` at two widths, light and dark.

usage: python -m tests.process.server.screenshots FOLDER

Needs Chromium. The runs are scripted; nothing leaves the machine.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import sync_playwright

from tests.process.server.conftest import Served
from tests.process.server.ui.conftest import SCHEMA, chromium

WIDTHS: Final = (1280, 390)
SCRIPTS: Final[dict[str, list[dict[str, Any]]]] = {
    "reviewer": [
        {
            "messages": ["I read the change, then I run the tests."],
            "tools": [
                {"name": "Read", "input": {"path": "src/totals.py"}, "output": "def total(items): …", "seconds": 0.4},
                {"name": "Bash", "input": {"command": "pytest -q"}, "output": "41 passed", "seconds": 1.6},
                {"name": "Grep", "input": {"pattern": "total\\("}, "output": "3 matches", "seconds": 0.2},
            ],
            "usage": {"input_tokens": 5210, "output_tokens": 340, "cost_usd": 0.0312},
            "json": {"approval": "yes"},
        },
        {"usage": {"input_tokens": 5600, "output_tokens": 35, "cost_usd": 0.0094}, "json": {"approval": True}},
    ],
    "writer": [{"text": "The change adds a total; it has tests."}] * 5,
    "stubborn": [{"json": {"approval": "maybe"}}] * 3,
}


def prepare(server: Served) -> dict[str, str]:
    """Create agents and runs, and return the addresses of the pages by name."""
    for name, answers in SCRIPTS.items():
        contract = {} if name == "writer" else {"output_schema": SCHEMA}
        config = {"script": {"answers": answers}}
        server.add_agent({"name": name, "profile": "scripted", "executor_config": config, **contract})
    ids = {}
    for name, prompt in (
        ("writer", "Say what changes"), ("stubborn", "Approve"), ("reviewer", "Review 17"), ("reviewer", "Review 18"),
    ):  # fmt: skip
        started = server.start(name, {"prompt": prompt})
        server.ended(started["run_id"])
        ids[prompt] = started
    first, second = ids["Review 17"]["run_id"], ids["Review 18"]["run_id"]
    return {
        "runs": "/ui/runs",
        "run": f"/ui/runs/{first}",
        "compare": f"/ui/runs/compare?a={first}&b={second}",
        "session": f"/ui/sessions/{ids['Say what changes']['session_id']}",
        "agents": "/ui/agents",
        "agent": "/ui/agents/reviewer",
        "inbox": "/ui/inbox",
        "usage": "/ui/usage",
    }


def main() -> None:
    """Write one PNG file for each page and width."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dark", action="store_true")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        for name in ("home", "project"):
            (Path(home) / name).mkdir()
        browser = playwright.chromium.launch(executable_path=chromium())
        with Served(Path(home) / "home", environ={"AO_STORE": "local"}, folder=Path(home) / "project") as server:
            for name, path in prepare(server).items():
                for width in WIDTHS:
                    page = browser.new_page(
                        viewport={"width": width, "height": 800}, color_scheme="dark" if asked.dark else "light"
                    )
                    page.goto(f"{server.url}{path}")
                    page.screenshot(
                        path=asked.folder / f"page-{name}-{width}.png", full_page=width < 600 or name == "run"
                    )
                    page.close()
        browser.close()


if __name__ == "__main__":
    main()
