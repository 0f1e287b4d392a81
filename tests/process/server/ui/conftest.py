"""A real headless Chromium in front of a real server, and agents that follow scripts."""

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.process.server.conftest import Serve, Served

REQUIRED: Final = "AO_TEST_REQUIRES_BROWSER"
"""Set by .ci/run: a missing browser is an error then, and skips nothing."""
CHROMIUM: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The names that distributions give the browser."""
NARROW: Final = 390
expect.set_options(timeout=60_000)
SCHEMA: Final = {"type": "object", "required": ["approval"], "properties": {"approval": {"type": "boolean"}}}
HOSTILE: Final = (
    "<script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\"></li></ol>"
    " \x1b[31mred\x1b[0m user\u202enimda zero\u200bwidth"
)
SCRIPTS: Final[dict[str, list[dict[str, Any]]]] = {
    "reviewer": [
        {"messages": ["I read the files."], "usage": {"input_tokens": 1200, "output_tokens": 80, "cost_usd": 0.5},
         "json": {"approval": "yes"}},
        {"json": {"approval": True}},
    ],
    "stubborn": [{"json": {"approval": "maybe"}}] * 3,
    "waiting": [{"messages": ["I begin."], "tools": [{"name": "Bash", "input": {"command": "make"}, "seconds": 600}],
                 "text": "done"}],
    "counting": [{"tools": [{"name": "Read", "input": {"n": n}, "output": f"line {n}", "seconds": 0.15}
                            for n in range(40)], "text": "counted"}],
    "many": [{"tools": [{"name": "Read", "input": {"n": n}, "output": "x" * 3000, "seconds": 0} for n in range(150)],
              "text": "read"}],
    "chatting": [{"text": f"Answer {n}."} for n in range(1, 6)],
    "crashing": [{"messages": ["Half of it is done."], "fault": "crash", "text": "x"}],
    "hostile": [{"messages": [HOSTILE, "A" * 10_000_000],
                 "tools": [{"name": "<b>Bash</b>", "input": {"text": HOSTILE}, "output": HOSTILE, "seconds": 0}],
                 "text": HOSTILE}],
}  # fmt: skip


def add_scripted(server: Served, *names: str) -> None:
    """Create agents that follow their scripts; reviewers have an output contract."""
    for name in names:
        has_contract = name in {"reviewer", "stubborn"}
        server.add_agent(
            {
                "name": name,
                "profile": "scripted",
                "executor_config": {"script": {"answers": SCRIPTS[name]}},
                **({"output_schema": SCHEMA} if has_contract else {}),
            }
        )


def start_scripted(server: Served, name: str, prompt: str = "Do it", **more: Any) -> dict[str, Any]:
    """Queue a run of a scripted agent."""
    return server.start(name, {"prompt": prompt}, **more)


def chromium() -> str:
    """Return the browser, or skip the test where there is none.

    Raises:
        RuntimeError: CI demands one.
    """
    for name in CHROMIUM:
        if (found := shutil.which(name)) is not None:
            return found
    if os.environ.get(REQUIRED):
        raise RuntimeError("there is no Chromium; .ci/toolchains installs it")
    pytest.skip("there is no Chromium on this machine; Debian has it as `chromium`")


@pytest.fixture(scope="module")  # while it is open, its event loop runs, and other tests cannot start their own
def browser() -> Iterator[Browser]:
    """A headless browser."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium())
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def usual(browser: Browser) -> BrowserContext:
    """A context for the pages that ask for nothing special: a new one takes a second of the processor."""
    return browser.new_context()


Open = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, usual: BrowserContext) -> Iterator[Open]:
    """Open pages. They keep nothing for other tests. An error of a script or of the policy for contents fails it."""
    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def start(address: str, **settings: Any) -> Page:
        context = browser.new_context(**settings) if settings else usual
        context.set_default_timeout(60_000)
        if settings:
            contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: faults.append(said.text) if "Security Policy" in said.text else None)
        page.goto(address)
        return page

    yield start
    for page in usual.pages:
        page.evaluate("location.protocol === 'about:' || localStorage.clear()")
        page.close()
    usual.clear_cookies()
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture
def scripted(share: Serve) -> Served:
    """A shared server with a worker and all scripted agents."""
    server = share()
    add_scripted(server, *SCRIPTS)
    return server
