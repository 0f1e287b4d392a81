"""A failure on the web page: the rule, what was expected, what was found, and what went in and out."""

from typing import Final

from ao_conformance.reports.markup import Content, Element, element
from ao_conformance.reports.overview import SIGNS, WORDS, Exhibit, Overview, amount, section_name
from ao_conformance.reports.transcript import Row, excerpt, transcript_rows
from ao_conformance.reports.visible import code_spans, cut
from ao_conformance.verdict import RequirementResult, VectorResult, Verdict

MAX_TEXT: Final = 4_000
MAX_ROWS: Final = 60
MAX_EXHIBITS: Final = 20
ICONS: Final = {verdict: f"{sign} " for verdict, sign in SIGNS.items()}


def requirement_problem(requirement: RequirementResult, overview: Overview) -> Element:
    """Show a requirement that was not kept, with everything that shows it."""
    exhibits = overview.exhibits(requirement)
    content: list[Content] = [_title(requirement), element("p", {"class": "rule"}, *prose(requirement.text))]
    if requirement.why:
        content.append(element("p", {"class": "why"}, element("b", None, "Why: "), *prose(requirement.why)))
    if requirement.reason:
        content.append(element("p", {"class": "reason"}, *prose(requirement.reason)))
    content += [_exhibit(exhibit, is_open=not number) for number, exhibit in enumerate(exhibits[:MAX_EXHIBITS])]
    if len(exhibits) > MAX_EXHIBITS:
        more = f"{amount(len(exhibits) - MAX_EXHIBITS, 'other finding')}: see the JSON report."
        content.append(element("p", {"class": "small"}, more))
    explain = element("code", {"class": "copy"}, f"ao conformance explain {requirement.id}")
    content.append(element("p", {"class": "again"}, element("span", None, "About the rule"), " ", explain))
    return element("article", {"class": f"problem {requirement.verdict}", "id": requirement.id}, *content)


def known_problem(requirement: RequirementResult, overview: Overview) -> Element:
    """Show a known failure, folded: it does not count."""
    title = element(
        "span",
        None,
        verdict_badge(requirement.verdict),
        " ",
        element("b", None, requirement.id),
        " ",
        *prose(requirement.text),
    )
    return folded(title, requirement_problem(requirement, overview))


def vector_problem(vector: VectorResult) -> Element:
    """Show a vector that failed without a requirement to tell of it: mostly the suite's own failures."""
    content: list[Content] = [
        element("h3", None, element("code", None, vector.id), " ", verdict_badge(vector.verdict)),
        element("p", {"class": "rule"}, vector.title),
    ]
    if vector.requirements:
        content.append(element("p", {"class": "small"}, f"For {', '.join(vector.requirements)}"))
    if vector.reason:
        content.append(element("p", {"class": "reason"}, *prose(vector.reason)))
    content += [_comparison(finding.expected, finding.found) for finding in vector.findings]
    content += _played(vector, None, is_open=True)
    return element("article", {"class": f"problem {vector.verdict}"}, *content)


def prose(text: str) -> list[Content]:
    """Return a sentence of the specification with its code as elements."""
    return [element("code", None, piece) if is_code else piece for is_code, piece in code_spans(text)]


def verdict_badge(verdict: Verdict, word: str = "") -> Element:
    """Return a verdict as a sign, a word, which is its own where none is given, and a colour."""
    sign = element("span", {"aria-hidden": "true"}, ICONS[verdict])
    return element("span", {"class": f"badge {verdict}"}, sign, word or WORDS[verdict])


def folded(summary: Element, *content: Element, is_open: bool = False) -> Element:
    """Return what opens and closes, without a script."""
    return element("details", {"open": "open"} if is_open else None, element("summary", None, summary), *content)


def _title(requirement: RequirementResult) -> Element:
    says = f"{requirement.keyword}, {requirement.level}, {section_name(requirement.section)}"
    return element(
        "h3",
        None,
        element("span", {"class": "id"}, requirement.id),
        " ",
        verdict_badge(requirement.verdict),
        " ",
        element("span", {"class": "small"}, says),
    )


def _exhibit(exhibit: Exhibit, *, is_open: bool) -> Element:
    content: list[Content] = [_comparison(exhibit.finding.expected, exhibit.finding.found)]
    if exhibit.hint:
        content.append(element("p", {"class": "hint"}, element("b", None, "Hint: "), *prose(exhibit.hint)))
    about: list[Content] = ["Vector ", element("code", None, exhibit.vector_id)]
    if exhibit.vector is not None:
        about.append(f": {exhibit.vector.title}")
    content.append(element("p", {"class": "vector"}, *about))
    if exhibit.vector is not None:
        content += _played(exhibit.vector, exhibit.finding.line, is_open=is_open)
    if exhibit.also_in:
        names = [element("li", None, element("code", None, name)) for name in exhibit.also_in]
        says = element("span", None, f"The same in {amount(len(names), 'other vector')}")
        content.append(folded(says, element("ul", {"class": "names"}, *names)))
    return element("div", {"class": "exhibit"}, *content)


def _comparison(expected: str, found: str) -> Element:
    pairs = [("Expected", "expected", expected), ("Found", "found", found)]
    return element(
        "dl",
        {"class": "comparison"},
        *[
            element("div", {"class": kind}, element("dt", None, name), element("dd", None, *prose(cut(text, MAX_TEXT))))
            for name, kind, text in pairs
        ],
    )


def _played(vector: VectorResult, line: int | None, *, is_open: bool) -> list[Content]:
    content: list[Content] = []
    if vector.transcript:
        rows = excerpt(transcript_rows(vector.transcript, line), MAX_ROWS)
        says = element("span", None, f"What went in and out ({amount(len(vector.transcript), 'line')})")
        content.append(folded(says, _transcript(rows, vector.id), is_open=is_open))
    if vector.reproduce:
        play = element("code", {"class": "copy", "title": "A click selects the whole line"}, vector.reproduce)
        content.append(element("p", {"class": "again"}, element("span", None, "Play it alone"), " ", play))
    return content


def _transcript(rows: list[Row], vector_id: str) -> Element:
    heads = [element("th", {"scope": "col"}, name) for name in ("Seconds", "Channel", "Text")]
    lines: list[Element] = []
    for row in rows:
        if row.left_out:
            gap = element("td", {"colspan": "3"}, f"… {row.left_out:,} left out …")
            lines.append(element("tr", {"class": "gap"}, gap))
        lines.append(_transcript_row(row))
    return element(
        "table",
        {"class": "transcript"},
        element("caption", None, f"Transcript of {vector_id}"),
        element("thead", None, element("tr", None, *heads)),
        element("tbody", None, *lines),
    )


def _transcript_row(row: Row) -> Element:
    number = element("span", {"class": "line"}, f" {row.line}") if row.line else ""
    here = [element("strong", {"class": "here"}, "◀ this line")] if row.marked else []
    kind = row.channel.rpartition(" ")[2]
    return element(
        "tr",
        {"class": f"{kind} marked" if row.marked else kind},
        element("td", {"class": "time"}, f"{row.seconds:.3f}"),
        element("td", {"class": "channel"}, row.channel, number),
        element("td", {"class": "text"}, *here, cut(row.text, MAX_TEXT)),
    )
