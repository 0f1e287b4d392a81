"""The report as Markdown, for a folder of docs and for GitHub: the same result gives the same page."""

import re
from collections.abc import Iterator
from shlex import join
from typing import Final

from ao_conformance.reports.overview import (
    PROTOCOL_NAME,
    SIGNS,
    WORDS,
    Exhibit,
    Overview,
    amount,
    by_section,
    counts_text,
    headline,
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
from ao_conformance.reports.transcript import excerpt, transcript_rows
from ao_conformance.reports.visible import code_spans, one_line, visible
from ao_conformance.verdict import RequirementResult, SuiteResult, VectorResult, Verdict

MAX_PROSE: Final = 600
MAX_LINE: Final = 300
MAX_ROWS: Final = 14
MAX_EXHIBITS: Final = 3
MAX_NAMES: Final = 12

_MARKUP: Final = re.compile(r"[\\`*\[\]~$#]|(?<![^\W_])_|_(?![^\W_])")
"""What means something in the middle of a line, in GitHub's dialect too."""
_AS_ENTITY: Final = re.compile(r"[<>&|@]|:(?=//)|(?<=www)\.", re.IGNORECASE)
"""What no backslash takes the meaning from in every dialect: tags, entities, table cells, mentions and bare links."""


def markdown_text(result: SuiteResult) -> str:
    """Return the page. What an executable wrote stands in fenced code or is escaped."""
    overview = overview_of(result)
    blocks = [*_summary(result)]
    if overview.broken:
        blocks.append("## Failures")
        for requirement in overview.broken:
            blocks += _problem(requirement, overview)
    if overview.unjudged:
        blocks.append("## Vectors that could not be judged")
        for vector in overview.unjudged:
            blocks += _vector_problem(vector)
    blocks += _lists(result)
    if result.reached and result.missing:
        lines = [f"- **{prose(name)}** {prose(text)}" for name, text in missing_in_short(result)]
        blocks += [f"## Missing to {next_level(result)}", "\n".join(lines)]
    for title, requirements in (("Warnings", overview.warned), ("Known failures", overview.known)):
        if requirements:
            blocks += [f"## {title}", "\n".join(_in_short(requirement, overview) for requirement in requirements)]
    blocks.append("## Requirements")
    for section, members in by_section(_applicable(result)).items():
        blocks += [f"### {prose(section_name(section))}", _table(members, result)]
    blocks += _not_applicable(overview)
    return "\n\n".join(blocks) + "\n"


def prose(text: str, *, in_table: bool = False) -> str:
    """Return a sentence as Markdown on one line: its code stays code, everything else means only itself."""
    pieces = []
    for is_code, piece in code_spans(one_line(text, MAX_PROSE)):
        if is_code and not (in_table and "|" in piece):
            pieces.append(f"`{piece}`")
        else:
            pieces.append(_AS_ENTITY.sub(lambda found: f"&#{ord(found[0])};", _MARKUP.sub(r"\\\g<0>", piece)))
    return "".join(pieces).strip() or "&nbsp;"


def fenced(text: str, language: str = "text") -> str:
    """Return text as a block of code, whatever backticks it holds."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _summary(result: SuiteResult) -> Iterator[str]:
    yield f"# {prose(f'{who(result)}: {PROTOCOL_NAME} {result.protocol_version}, {scope(result)}')}"
    yield f"**{SIGNS[result.verdict]} {verdict_word(result)}** {prose(headline(result))}"
    yield counts_text(result) + "."
    played = f"{amount(result.executed, 'vector')} of {len(result.vectors)} in {result.seconds:.1f} s"
    facts = {
        "Started": result.started_at,
        "Suite": f"{result.suite} {result.suite_version}",
        "Seed": seed_text(result),
        "Played": played,
    }
    yield "\n".join(f"- {name}: {prose(fact)}" for name, fact in facts.items())
    yield fenced(visible(join(result.command)), "sh")


def _problem(requirement: RequirementResult, overview: Overview) -> Iterator[str]:
    place = f"{requirement.keyword}, {requirement.level}, {section_name(requirement.section)}"
    yield f"### {SIGNS[requirement.verdict]} {prose(requirement.id)}"
    yield f"> **{WORDS[requirement.verdict]}** ({prose(place)}) {prose(requirement.text)}"
    if requirement.why:
        yield f"Why: {prose(requirement.why)}"
    if requirement.reason:
        yield f"Reason: {prose(requirement.reason)}"
    exhibits = overview.exhibits(requirement)
    for exhibit in exhibits[:MAX_EXHIBITS]:
        yield from _exhibit(exhibit)
    if len(exhibits) > MAX_EXHIBITS:
        yield f"{amount(len(exhibits) - MAX_EXHIBITS, 'other finding')} of this requirement: see the JSON report."


def _vector_problem(vector: VectorResult) -> Iterator[str]:
    yield f"### {SIGNS[vector.verdict]} {prose(vector.id)}"
    rules = f" (for {prose(', '.join(vector.requirements))})" if vector.requirements else ""
    yield f"> **{WORDS[vector.verdict]}** {prose(vector.title)}{rules}"
    if vector.reason:
        yield f"Reason: {prose(vector.reason)}"
    if vector.findings:
        yield "\n".join(
            f"- Rule {prose(finding.requirement)}: expected: {prose(finding.expected)}; found: {prose(finding.found)}"
            for finding in vector.findings
        )
    yield from _played(vector, None)


def _exhibit(exhibit: Exhibit) -> Iterator[str]:
    title = f": {prose(exhibit.vector.title)}" if exhibit.vector else ""
    lines = [
        f"- Vector: {prose(exhibit.vector_id)}{title}",
        f"- Expected: {prose(exhibit.finding.expected)}",
        f"- Found: {prose(exhibit.finding.found)}",
    ]
    if exhibit.hint:
        lines.append(f"- Hint: {prose(exhibit.hint)}")
    if exhibit.also_in:
        names = ", ".join(prose(name) for name in exhibit.also_in[:MAX_NAMES])
        more = f" and {len(exhibit.also_in) - MAX_NAMES} more" if len(exhibit.also_in) > MAX_NAMES else ""
        lines.append(f"- The same in: {names}{more}")
    yield "\n".join(lines)
    if exhibit.vector:
        yield from _played(exhibit.vector, exhibit.finding.line)


def _played(vector: VectorResult, line: int | None) -> Iterator[str]:
    if vector.transcript:
        lines = []
        for row in excerpt(transcript_rows(vector.transcript, line), MAX_ROWS):
            lines += [f"   … {row.left_out:,} left out"] if row.left_out else []
            number = f"{row.line}" if row.line else ""
            mark = ">" if row.marked else " "
            lines.append(
                f"{mark}{row.seconds:8.3f} {row.channel:>6} {number:>4}  {one_line(row.text, MAX_LINE)}".rstrip()
            )
        yield fenced("\n".join(lines))
    if vector.reproduce:
        yield "Play it alone:"
        yield fenced(visible(vector.reproduce), "sh")


def _lists(result: SuiteResult) -> Iterator[str]:
    stale = [
        f"- Stale: {prose(entry)} is a known failure that did not fail; take it out of the list"
        for entry in result.stale
    ]
    unstable = [
        f"- Unstable: {prose(vector_id)} did not end the same way in every repeat" for vector_id in result.unstable
    ]
    if stale or unstable:
        yield "## Lists that do not fit"
        yield "\n".join(stale + unstable)


def _in_short(requirement: RequirementResult, overview: Overview) -> str:
    lines = [f"- {SIGNS[requirement.verdict]} **{prose(requirement.id)}** {prose(requirement.text)}"]
    for exhibit in overview.exhibits(requirement)[:MAX_EXHIBITS]:
        expected, found = prose(exhibit.finding.expected), prose(exhibit.finding.found)
        lines.append(f"  - Vector {prose(exhibit.vector_id)}: expected: {expected}; found: {found}")
    return "\n".join(lines)


def _applicable(result: SuiteResult) -> list[RequirementResult]:
    return [requirement for requirement in result.requirements if requirement.verdict is not Verdict.NOT_APPLICABLE]


def _table(requirements: list[RequirementResult], result: SuiteResult) -> str:
    lines = ["| Id | Verdict | Looked at in | Level | Rule |", "| --- | --- | --- | --- | --- |"]
    for requirement in requirements:
        known = " (known)" if requirement.known_failing else ""
        verdict = f"{SIGNS[requirement.verdict]} {WORDS[requirement.verdict]}{known}"
        level = prose(f"{requirement.keyword}, {requirement.level}", in_table=True)
        name, text = prose(requirement.id, in_table=True), prose(requirement.text, in_table=True)
        lines.append(f"| {name} | {verdict} | {looked_at_in(requirement, result)} | {level} | {text} |")
    return "\n".join(lines)


def _not_applicable(overview: Overview) -> Iterator[str]:
    if not overview.not_applicable:
        return
    yield "## Not applicable"
    reasons: dict[str, list[str]] = {}
    for requirement in overview.not_applicable:
        reasons.setdefault(requirement.reason or "no reason was given", []).append(prose(requirement.id))
    yield "\n".join(f"- Because {prose(reason)}: {', '.join(names)}" for reason, names in reasons.items())
