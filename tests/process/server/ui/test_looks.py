"""Every page in both colours and on a narrow screen, by keyboard, with hostile texts, and for everybody's rights."""

from pathlib import Path

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page, expect

from tests.process.server.conftest import Served
from tests.process.server.ui.conftest import NARROW, Open, start_scripted

MINIATURES = Path(__file__).parents[3] / "miniatures"
EMPTY_PAGES = ["/ui/runs", "/ui/sessions", "/ui/inbox", "/ui/workers", "/ui/usage", "/ui/webhooks", "/ui/nothing"]


def serious_faults(page: Page, **options: list[str]) -> list[str]:
    """Return what axe finds, but for what is of minor or moderate impact."""
    found = Axe().run(page, options={"resultTypes": ["violations"], **options}).response["violations"]
    return [
        f"{one['id']}: {[node['html'] for node in one['nodes'][:3]]}"
        for one in found
        if one["impact"] in {"serious", "critical"}
    ]


def check_page(page: Page, address: str) -> None:
    """Check what an address shows on a page, which others have had: a context of its own takes a second."""
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(address)
    assert serious_faults(page) == [], address
    page.emulate_media(color_scheme="dark")
    assert serious_faults(page, runOnly=["color-contrast"]) == [], f"{address}, dark"
    page.set_viewport_size({"width": NARROW, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW, address


def test_empty_pages_have_no_serious_fault(scripted: Served, open_page: Open) -> None:
    page = open_page("about:blank")
    for path in EMPTY_PAGES:
        check_page(page, f"{scripted.url}{path}")


def test_a_page_with_runs_of_all_kinds_has_no_serious_fault(scripted: Served, open_page: Open) -> None:
    kinds = ("reviewer", "stubborn", "crashing", "hostile", "chatting")
    ids = {name: start_scripted(scripted, name) for name in kinds}
    scripted.add_agent({"name": "delegating", "profile": str(MINIATURES / "thinks_and_delegates.py")})
    ids["delegating"] = start_scripted(scripted, "delegating")
    ids["waiting"] = start_scripted(scripted, "waiting")
    ids["child"] = start_scripted(scripted, "chatting", parent_session_id=ids["waiting"]["session_id"])
    for name in ("child", "delegating", *kinds):
        scripted.ended(ids[name]["run_id"])
    runs = [f"/ui/runs/{one['run_id']}" for one in ids.values()]
    sessions = [f"/ui/sessions/{ids[name]['session_id']}" for name in ("waiting", "hostile")]
    page = open_page("about:blank")
    for path in (*EMPTY_PAGES, "/ui/runs?status=failed&agent=stubborn", "/ui/workers?check=true", *runs, *sessions):
        check_page(page, f"{scripted.url}{path}")


def test_hostile_text_is_shown_and_does_nothing(scripted: Served, open_page: Open) -> None:
    run_id = start_scripted(scripted, "hostile", "<script>document.title = 'taken'</script>")["run_id"]
    page = open_page(f"{scripted.url}/ui/runs/{run_id}")  # written partly by the server, partly by the stream
    expect(page.locator("#timeline .end .who")).to_have_text("Result", timeout=60_000)
    for _ in range(2):
        text = page.locator("#timeline").inner_text()
        assert "<script>document.title = 'taken'</script><img" in text
        assert "⟨U+001B⟩[31mred" in text
        assert "user⟨U+202E⟩nimda zero⟨U+200B⟩width" in text
        assert "\u202e" not in page.content()
        assert page.locator("#timeline script, #timeline img").count() == 0
        assert len(page.content()) < 100_000
        assert "taken" not in page.title()
        page.reload()
    raw = page.locator("#timeline .rest a").first.get_attribute("href")
    assert len(scripted.client.get(raw or "").text) > 10_000_000


def test_pages_are_used_by_keyboard(scripted: Served, open_page: Open) -> None:
    page = open_page(f"{scripted.url}/ui/runs")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    assert skip.evaluate("link => link.getBoundingClientRect().left") >= 0
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.locator(".brand").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Runs", exact=True)).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_the_choice_of_colours_stays(scripted: Served, open_page: Open) -> None:
    page = open_page(f"{scripted.url}/ui/runs", color_scheme="light")
    button = page.get_by_role("button", name="Colours")
    button.click()
    button.click()
    for _ in range(2):
        assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
        page.goto(f"{scripted.url}/ui/sessions")


def test_motion_is_reduced_for_who_asks_for_it(scripted: Served, open_page: Open) -> None:
    run_id = start_scripted(scripted, "waiting")["run_id"]
    page = open_page(f"{scripted.url}/ui/runs/{run_id}", reduced_motion="reduce")
    expect(page.locator("#head .badge.running")).to_be_visible()
    style = "getComputedStyle(document.querySelector('.badge.running'), '::before').animationName"
    assert page.evaluate(style) == "none"
