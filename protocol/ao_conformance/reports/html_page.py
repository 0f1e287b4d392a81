"""The report as a web page: one file that needs nothing else, no network and no script; failures come first."""

import json
from collections import Counter
from collections.abc import Iterable
from importlib.resources import files
from shlex import join

from ao_conformance.reports.html_problem import (
    ICONS,
    folded,
    known_problem,
    prose,
    requirement_problem,
    vector_problem,
    verdict_badge,
)
from ao_conformance.reports.markup import Content, Element, element, html_document
from ao_conformance.reports.overview import (
    BROKEN,
    PROTOCOL_NAME,
    WORDS,
    Overview,
    amount,
    by_section,
    counts,
    headline,
    kept_of_applicable,
    looked_at_in,
    missing_in_short,
    next_level,
    overview_of,
    scope,
    section_name,
    seed_text,
    verdict_word,
    who,
)
from ao_conformance.reports.visible import encodable
from ao_conformance.verdict import RequirementResult, SuiteResult, VectorResult, Verdict

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The page may load nothing at all, whatever stands in it."""


def html_text(result: SuiteResult) -> str:
    """Return the page. What an executable wrote stands in it as text only."""
    overview = overview_of(result)
    parts = [part for part in _parts(result, overview) if part is not None]
    body = element(
        "body",
        None,
        element("a", {"class": "skip", "href": "#main"}, "Skip to the findings"),
        _header(result),
        _navigation(parts),
        element("main", {"id": "main"}, *parts),
        _footer(result),
    )
    return html_document(element("html", {"lang": "en"}, _head(result), body))


def _head(result: SuiteResult) -> Element:
    style = (files("ao_conformance.reports") / "page.css").read_text(encoding="utf-8")
    return element(
        "head",
        None,
        element("meta", {"charset": "utf-8"}),
        element("meta", {"http-equiv": "Content-Security-Policy", "content": POLICY}),
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", {"name": "color-scheme", "content": "light dark"}),
        element("title", None, f"{verdict_word(result)}: {who(result)}, {_subject(result)}"),
        element("style", None, style),
    )


def _subject(result: SuiteResult) -> str:
    return f"{PROTOCOL_NAME} {result.protocol_version}, {scope(result)}"


def _header(result: SuiteResult) -> Element:
    tiles = [
        element(
            "li",
            {"class": f"tile {verdict}" if number else "tile none"},
            element("b", None, str(number)),
            " ",
            element("span", None, ICONS[verdict], WORDS[verdict]),
        )
        for verdict, number in counts(result)
    ]
    return element(
        "header",
        None,
        element("p", {"class": "subject"}, _subject(result)),
        element("h1", None, who(result), " ", verdict_badge(result.verdict, verdict_word(result))),
        element("p", {"class": "headline"}, headline(result)),
        element("ul", {"class": "tiles", "aria-label": "Requirements by verdict"}, *tiles),
        _facts(result),
    )


def _facts(result: SuiteResult) -> Element:
    played = f"{amount(result.executed, 'vector')} of {len(result.vectors)}, in {result.seconds:.1f}\u00a0s"
    facts: list[tuple[str, Content]] = [
        ("Command", element("code", None, join(result.command))),
        ("Played", played),
        ("Started", element("time", {"datetime": result.started_at}, result.started_at)),
        ("Seed", seed_text(result)),
        ("Suite", f"{result.suite} {result.suite_version}"),
    ]
    pairs = [element("div", None, element("dt", None, name), element("dd", None, value)) for name, value in facts]
    return element("dl", {"class": "facts"}, *pairs)


def _navigation(parts: list[Element]) -> Element:
    links = []
    for part in parts:
        title = "".join(part[0].itertext())
        links.append(element("li", None, element("a", {"href": f"#{part.get('id', '')}"}, title)))
    return element("nav", {"aria-label": "Parts of this report"}, element("ul", None, *links))


def _parts(result: SuiteResult, overview: Overview) -> list[Element | None]:
    return [
        _part("failures", "Failures", [requirement_problem(requirement, overview) for requirement in overview.broken]),
        _part("unjudged", "Vectors that could not be judged", [vector_problem(vector) for vector in overview.unjudged]),
        _part("expectations", "Lists that do not fit", _lists(result)),
        _part("missing", f"Missing to {next_level(result)}", _missing(result)),
        _part("warnings", "Warnings", [requirement_problem(requirement, overview) for requirement in overview.warned]),
        _part("known", "Known failures", [known_problem(requirement, overview) for requirement in overview.known]),
        _part("requirements", "Requirements", _sections(result), count=kept_of_applicable(result)[1]),
        _part(
            "not-applicable", "Not applicable", _not_applicable(overview, result), count=len(overview.not_applicable)
        ),
        _part("vectors", "Vectors", [_vectors(result)] if result.vectors else [], count=len(result.vectors)),
        _part("description", "Description", _description(result), count=None),
    ]


def _part(name: str, title: str, content: list[Element], count: int | None = 0) -> Element | None:
    if not content:
        return None
    number = len(content) if count == 0 else count
    heading = element("h2", None, title if number is None else f"{title} ({number})")
    return element("section", {"id": name, "class": "part"}, heading, *content)


def _lists(result: SuiteResult) -> list[Element]:
    stale = "is in the list of known failures and did not fail: take it out"
    unstable = "did not end the same way in every repeat"
    lines = [(entry, stale) for entry in result.stale] + [(vector_id, unstable) for vector_id in result.unstable]
    return [element("p", None, element("code", None, name), " ", what) for name, what in lines]


def _missing(result: SuiteResult) -> list[Element]:
    lines = missing_in_short(result) if result.reached else []
    return [element("p", None, element("b", None, name), f" {text}") for name, text in lines]


def _sections(result: SuiteResult) -> list[Element]:
    applicable = [each for each in result.requirements if each.verdict is not Verdict.NOT_APPLICABLE]
    sections = by_section(applicable).items()
    return [_section(section_name(section), requirements, result) for section, requirements in sections]


def _section(title: str, requirements: list[RequirementResult], result: SuiteResult) -> Element:
    table = _requirement_table(requirements, f"Requirements of {title}", result)
    verdicts = Counter(requirement.verdict for requirement in requirements)
    badges = [
        element("span", {"class": f"badge {verdict}"}, ICONS[verdict], f"{verdicts[verdict]} {WORDS[verdict]}")
        for verdict in WORDS
        if verdict in verdicts
    ]
    summary = element("span", {"class": "section"}, element("b", None, *prose(title)), " ", *_spaced(badges))
    return folded(summary, table, is_open=bool(BROKEN.intersection(verdicts)))


def _spaced(elements: list[Element]) -> list[Content]:
    return [piece for each in elements for piece in (each, " ")]


def _requirement_table(requirements: Iterable[RequirementResult], caption: str, result: SuiteResult) -> Element:
    rows = [_requirement_row(requirement, result) for requirement in requirements]
    return _table(("Id", "Verdict", "Rule"), rows, caption)


def _not_applicable(overview: Overview, result: SuiteResult) -> list[Element]:
    if not overview.not_applicable:
        return []
    says = "They belong to what was not asked for or is not declared"
    return [folded(element("span", None, says), _requirement_table(overview.not_applicable, "Not applicable", result))]


def _requirement_row(requirement: RequirementResult, result: SuiteResult) -> Element:
    rule: list[Content] = [*prose(requirement.text)]
    if requirement.why:
        rule.append(element("p", {"class": "why"}, *prose(requirement.why)))
    if requirement.reason:
        rule.append(element("p", {"class": "reason"}, *prose(requirement.reason)))
    looked = f"; looked at in {looked_at_in(requirement, result)}" if requirement.vectors else ""
    known = "; a known failure" if requirement.known_failing else ""
    rule.append(element("p", {"class": "small"}, f"{requirement.keyword}, {requirement.level}{looked}{known}"))
    return element(
        "tr",
        None,
        element("th", {"scope": "row"}, _link(requirement)),
        element("td", None, verdict_badge(requirement.verdict)),
        element("td", None, *rule),
    )


def _link(requirement: RequirementResult) -> Content:
    has_article = requirement.verdict in BROKEN | {Verdict.WARN}
    return element("a", {"href": f"#{requirement.id}"}, requirement.id) if has_article else requirement.id


def _vectors(result: SuiteResult) -> Element:
    rows = [_vector_row(vector) for vector in result.vectors]
    table = _table(("Vector", "Verdict", "What must happen"), rows, "Every vector of the suite")
    return folded(element("span", None, f"All {len(rows)}, with what they took"), table)


def _vector_row(vector: VectorResult) -> Element:
    says: list[Content] = [vector.title]
    if vector.reason:
        says.append(element("p", {"class": "reason"}, *prose(vector.reason)))
    belongs = f"{vector.topic}; {vector.capability or vector.level}; {vector.seconds:.2f} s"
    says.append(element("p", {"class": "small"}, belongs + ("; a known failure" if vector.known_failing else "")))
    return element(
        "tr",
        None,
        element("th", {"scope": "row"}, vector.id),
        element("td", None, verdict_badge(vector.verdict)),
        element("td", None, *says),
    )


def _table(names: tuple[str, ...], rows: list[Element], caption: str) -> Element:
    heads = [element("th", {"scope": "col"}, name) for name in names]
    return element(
        "table",
        {"class": "results"},
        element("caption", None, caption),
        element("thead", None, element("tr", None, *heads)),
        element("tbody", None, *rows),
    )


def _description(result: SuiteResult) -> list[Element]:
    if not result.description:
        return []
    text = encodable(json.dumps(dict(result.description), ensure_ascii=False, indent=2, default=str))
    return [folded(element("span", None, "What it says of itself"), element("pre", None, text))]


def _footer(result: SuiteResult) -> Element:
    made = f"Made by the {result.suite} suite {result.suite_version} of the {PROTOCOL_NAME}."
    explain = element("code", None, "ao conformance explain AOX-…")
    return element("footer", None, element("p", None, made, " A rule, its reason and its vectors: ", explain))
