"""The web page: a browser shows what came, and obeys none of it."""

from html import unescape
from html.parser import HTMLParser

from hypothesis import given

from ao_conformance.reports.pages import html_text
from ao_conformance.reports.transcript_rows import visible
from ao_conformance.verdict import SuiteResult
from tests.conformance.reports.results import HOSTILE, every_verdict, hostile_results, result_with, small_result

WITHOUT_END = {"meta"}
KNOWN_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "nav", "main", "section", "article", "footer", "div"),
    *("h1", "h2", "h3", "p", "a", "b", "strong", "span", "code", "pre", "time", "ul", "li", "dl", "dt", "dd"),
    *("details", "summary", "table", "caption", "thead", "tbody", "tr", "th", "td"),
}
KNOWN_ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "aria-label", "aria-hidden"),
    *("datetime", "open", "scope", "title", "colspan"),
}


class Page(HTMLParser):
    """Reads a page and refuses what the report never writes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in KNOWN_TAGS
        assert {name for name, _ in attrs} <= KNOWN_ATTRIBUTES
        values = dict(attrs)
        self.links += [values["href"] or ""] if "href" in values else []
        self.ids += [values["id"] or ""] if "id" in values else []
        if tag not in WITHOUT_END:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)


def test_a_failure_shows_rule_reason_expectation_finding_transcript_and_how_to_see_it_again() -> None:
    text = unescape(html_text(small_result()))

    assert "<h1>demo 1.2 <span" in text
    assert "demo 1.2 does not pass core of the AO executor protocol 3.0: 1 of 2 applicable requirements failed." in text
    assert "Another major is refused as <code>unsupported_schema_version</code>." in text
    assert "<b>Why: </b>Nobody guesses." in text
    assert "<dt>Expected</dt><dd><code>failure</code>, exit 64</dd>" in text
    assert "<dt>Found</dt><dd><code>result</code>, exit 0</dd>" in text
    assert '<strong class="here">◀ this line</strong>{"event_type":"result","seq":2}' in text
    assert ">ao conformance run --vector other-major -- demo --quiet</code>" in text
    assert ">ao conformance explain AOX-011</code>" in text


def test_a_verdict_is_a_sign_and_a_word_and_not_only_a_colour() -> None:
    badge = '<span class="badge pass"><span aria-hidden="true">✓ </span>pass</span>'

    assert badge in html_text(small_result())


def test_the_parts_come_in_the_order_of_importance_and_the_navigation_leads_to_each() -> None:
    page = Page(html_text(every_verdict()))
    parts = ["failures", "unjudged", "expectations", "warnings", "known"]
    parts += ["requirements", "not-applicable", "vectors", "description"]

    assert [name for name in page.ids if name in parts] == parts
    assert {f"#{part}" for part in parts} <= set(page.links)
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)


def test_a_page_needs_nothing_from_elsewhere() -> None:
    text = html_text(small_result())

    assert "default-src 'none'" in text
    assert "url(" not in text
    assert "@import" not in text


def test_hostile_text_is_shown_as_text() -> None:
    for text in HOSTILE[:-1]:
        page = Page(html_text(result_with(lambda text=text: text)))  # type: ignore[misc]  # mypy infers no lambda defaults

        assert visible(text) in "".join(page.texts["td"])


@given(hostile_results())
def test_any_text_is_well_formed_and_becomes_no_markup(result: SuiteResult) -> None:
    text = html_text(result)

    assert all(link.startswith("#") for link in Page(text).links)
    text.encode()
