"""Every page from 320 to 2,560 px without overflow, and for axe without a finding at three widths in both colours."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page

from tests.process.server.conftest import Served
from tests.process.server.ui.conftest import Open, start_scripted

WIDTHS = (320, 390, 640, 720, 1024, 1440, 2560)
AXE_WIDTHS = (320, 720, 1440)
LISTS = ("runs", "sessions", "inbox", "workers", "usage", "actions", "webhooks", "agents", "schemas", "runs/compare")
LONG = "a-name-without-a-place-to-break-" * 3


def fill(server: Served) -> list[str]:
    """Create what is hard to lay out, and return the addresses of all kinds of pages."""
    config = {"script": {"answers": [{"text": "W" * 400}] * 3}}
    tags = [f"tag-{number}-with-{'x' * 20}" for number in range(20)]
    agent = {
        "name": LONG[:60],
        "profile": "scripted",
        "description": "d" * 300,
        "tags": tags,
        "executor_config": config,
    }
    server.add_agent(agent)
    server.client.post("/schemas", json={"name": "s" * 60, "schema": {"type": "object"}})
    kinds = ("reviewer", "stubborn", "crashing", "hostile", LONG[:60])
    ids = [start_scripted(server, name, "p" * 300) for name in kinds]
    for one in ids:
        server.ended(one["run_id"])
    ids.append(start_scripted(server, "waiting"))
    runs = [f"/ui/runs/{one['run_id']}" for one in ids]
    sessions = [f"/ui/sessions/{one['session_id']}" for one in ids[-2:]]
    agents = [f"/ui/agents/{name}" for name in ("_new", "reviewer", f"{LONG[:60]}", f"{LONG[:60]}/run")]
    compared = f"/ui/runs/compare?a={ids[1]['run_id']}&b={ids[3]['run_id']}"
    lists = [f"/ui/{one}" for one in (*LISTS, "workers?check=true", "schemas/_new", "nothing")]
    return [*lists, compared, *runs, *sessions, *agents]


def overflows(page: Page, address: str, widths: tuple[int, ...]) -> Iterator[str]:
    for width in widths:
        page.set_viewport_size({"width": width, "height": 800})
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            yield f"{address} is {wide} px wide at {width}"


def findings(page: Page, address: str) -> Iterator[str]:
    for width in AXE_WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for one in Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]:
                yield f"{address} {width} {scheme}: {one['id']} {[node['html'][:150] for node in one['nodes'][:2]]}"


@pytest.mark.slow
def test_no_page_overflows_and_axe_finds_nothing(scripted: Served, open_page: Open) -> None:
    page = open_page(f"{scripted.url}/ui/runs")
    faults: list[str] = []
    for path in fill(scripted):
        page.goto(f"{scripted.url}{path}")
        faults += [*overflows(page, path, WIDTHS), *findings(page, path)]
    assert not faults, "\n".join(faults)


def test_the_pages_that_hold_long_names_fit_a_narrow_screen(scripted: Served, open_page: Open) -> None:
    paths = fill(scripted)
    page = open_page(f"{scripted.url}/ui/actions")
    faults: list[str] = []
    for path in ("/ui/actions", "/ui/agents", "/ui/workers", paths[-9], paths[-1]):
        page.goto(f"{scripted.url}{path}")
        faults += overflows(page, path, (320, 720))
    assert not faults, "\n".join(faults)


def test_a_first_page_has_at_most_120_kilobytes_and_later_ones_40(scripted: Served) -> None:
    paths = fill(scripted)
    run_id = start_scripted(scripted, "many")["run_id"]
    scripted.ended(run_id)

    def size_of(path: str) -> int:
        with scripted.client.stream("GET", path, headers={"Accept": "text/html"}) as answer:
            sent = len(b"".join(answer.iter_raw()))
            assert answer.headers["content-length"] == str(sent)
        return sent

    pages = {path: size_of(path) for path in (*paths, f"/ui/runs/{run_id}")}
    static = sum(
        size_of(f"/static/{name}") for name in ("app.css", "app.js", "htmx.min.js", "hx-sse.min.js", "icon.svg")
    )
    editor = sum(size_of(f"/static/editor.{kind}") for kind in ("css", "js"))
    assert {path: size for path, size in pages.items() if size > 40_000} == {}
    assert static + editor + max(pages.values()) <= 120_000
