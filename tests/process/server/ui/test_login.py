"""The login of browsers, and what each role sees."""

import pytest
from playwright.sync_api import expect

from ao_server.gate import COOKIE, tokens_of
from ao_server.who import Role
from tests.process.server.conftest import Serve, Served, wait_for
from tests.process.server.ui.conftest import Open, add_scripted, chromium


@pytest.fixture
def guarded(share: Serve) -> Served:
    """A server that demands a token."""
    chromium()
    server = share("--token", "--no-worker")
    server.client.headers["authorization"] = f"Bearer {tokens_of(server.home)['client']}"
    add_scripted(server, "reviewer")
    return server


@pytest.mark.parametrize("role", ["client", "reader"])
def test_a_login_leads_to_the_page_that_was_asked_for(guarded: Served, open_page: Open, role: Role) -> None:
    page = open_page(f"{guarded.url}/ui/agents?x=1")
    page.get_by_label("Token").fill(tokens_of(guarded.home)[role])
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{guarded.url}/ui/agents?x=1")
    (cookie,) = page.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == (COOKIE, True, "Lax")
    assert cookie["value"] not in tokens_of(guarded.home).values()
    acts = 1 if role == "client" else 0
    expect(page.get_by_role("link", name="New agent")).to_have_count(acts)
    expect(page.get_by_role("link", name="Run reviewer")).to_have_count(acts)
    page.get_by_role("link", name="reviewer", exact=True).click()
    expect(page.get_by_role("button", name="Save", exact=True)).to_have_count(acts)
    page.goto(f"{guarded.url}/ui/agents/reviewer/run")
    expect(page.get_by_role("button", name="Run", exact=True)).to_have_count(acts)
    status = 303 if role == "client" else 403
    assert page.request.post(f"{guarded.url}/ui/agents/reviewer/delete", max_redirects=0).status == status
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(f"{guarded.url}/login")
    page.goto(f"{guarded.url}/ui/runs")
    expect(page).to_have_url(f"{guarded.url}/login?back=/ui/runs")


def test_a_link_of_another_site_leads_to_the_page_of_one_who_is_logged_in(guarded: Served, open_page: Open) -> None:
    page = open_page(f"{guarded.url}/login")
    page.get_by_label("Token").fill(tokens_of(guarded.home)["client"])
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{guarded.url}/ui/runs")
    other = f"http://localhost:{guarded.port}/static/icon.svg"
    page.route(
        other,
        lambda route: route.fulfill(body=f'<a href="{guarded.url}/ui/agents">a run</a>', content_type="text/html"),
    )
    page.goto(other)
    page.get_by_role("link").click()
    expect(page).to_have_url(f"{guarded.url}/ui/agents")
    page.goto(f"{guarded.url}/login?back=/ui/schemas")
    expect(page).to_have_url(f"{guarded.url}/ui/schemas")


def test_a_wrong_token_is_told(guarded: Served, open_page: Open) -> None:
    page = open_page(f"{guarded.url}/ui/runs")
    page.get_by_label("Token").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("This token is not known here.")
    assert page.context.cookies() == []
    page.get_by_label("Token").fill(tokens_of(guarded.home)["worker"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("the token of a worker")
    assert page.context.cookies() == []
    expect(page.get_by_role("button", name="Log out")).to_have_count(0)


@pytest.mark.parametrize(
    "back", ["//evil.example", "https://evil.example/ui/", "/ui/\\evil", "/ui/x\r\nset-cookie: a=b", ""]
)
def test_a_login_leads_to_no_foreign_page(guarded: Served, back: str) -> None:
    answer = guarded.client.post("/login", data={"token": tokens_of(guarded.home)["reader"], "back": back})
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/runs")


def test_the_cookie_is_secure_behind_https_if_the_proxy_is_named(guarded: Served, serve: Serve) -> None:
    behind = serve("--token", "--no-worker", "--proxy", "127.0.0.0/8")
    for server, is_secure in ((guarded, False), (behind, True)):
        token = {"token": tokens_of(server.home)["reader"]}
        answer = server.client.post("/login", data=token, headers={"x-forwarded-proto": "https"})
        assert ("Secure" in answer.headers["set-cookie"]) is is_secure


def test_a_foreign_page_can_neither_log_in_nor_out(guarded: Served) -> None:
    headers = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    for path in ("/login", "/logout"):
        assert guarded.client.post(path, data={"token": "x"}, headers=headers).status_code == 403


def test_a_server_without_tokens_asks_for_none(share: Serve) -> None:
    server = share("--no-worker")
    assert "asks nobody for a token" in server.client.get("/login").text
    assert "set-cookie" not in server.client.post("/login", data={"token": "x"}).headers


def test_the_name_of_one_whom_a_proxy_has_logged_in_stands_on_pages_and_breaks_none(
    serve: Serve, open_page: Open
) -> None:
    chromium()
    server = serve("--no-worker", "--proxy", "127.0.0.1", "--login-header", "X-User", "--login-role", "client")
    name = "anna" * 50
    server.client.headers["x-user"] = name
    add_scripted(server, "reviewer")
    wait_for(lambda: server.client.get("/actions").json()["actions"])
    page = open_page("about:blank")
    page.set_extra_http_headers({"x-user": name})
    page.set_viewport_size({"width": 320, "height": 700})
    for address in ("/ui/actions", "/ui/runs"):
        page.goto(f"{server.url}{address}")
        expect(page.get_by_role("banner")).to_contain_text(name)
        expect(page.get_by_role("button", name="Log out")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, address
    page.goto(f"{server.url}/ui/actions")
    expect(page.get_by_role("table")).to_contain_text(f"client {name}")
