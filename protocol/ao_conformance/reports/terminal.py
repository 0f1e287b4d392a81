"""The result for a terminal: failures first, the verdict last, because the last line stays in view."""

import os
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from shlex import join
from typing import Final, TextIO

from ao_conformance.reports.overview import (
    PROTOCOL_NAME,
    SIGNS,
    WORDS,
    Exhibit,
    Overview,
    amount,
    by_reason,
    counts_text,
    headline,
    missing_in_short,
    next_level,
    overview_of,
    scope,
    seed_text,
    verdict_word,
    who,
    why_left_out,
)
from ao_conformance.reports.transcript_rows import excerpt, one_line, transcript_rows
from ao_conformance.verdict import RequirementResult, SuiteResult, VectorResult, Verdict
from ao_protocol.short_text import shorten

MAX_TEXT: Final = 1_000
MAX_ROWS: Final = 9
MAX_PROBLEMS: Final = 8
"""The number of problems that are shown in full; after a repair, the next test shows others."""
MAX_EXHIBITS: Final = 2
MAX_NAMES: Final = 8
MAX_NEVER: Final = 30
LABEL_COLUMNS: Final = 10

_STYLES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}
_TONES: Final[Mapping[Verdict, str]] = {
    Verdict.PASS: "green",
    Verdict.FAIL: "red",
    Verdict.WARN: "yellow",
    Verdict.NOT_APPLICABLE: "dim",
    Verdict.NEVER_EXERCISED: "yellow",
    Verdict.UNTESTABLE: "magenta",
    Verdict.HARNESS_ERROR: "cyan",
}


def wants_colours(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a stream is a terminal whose user allows colours (no-color.org)."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def terminal_text(result: SuiteResult, *, colours: bool = False, columns: int = 100) -> str:
    """Return the summary, failures, warnings and the verdict, with a line end at the end.

    Prose is wrapped and transcripts are cut at `columns`. Without `colours` the text has no escape sequence, whatever
    an executable wrote; with them, only those of this module.
    """
    return "\n".join(_Terminal(colours, max(columns, 40)).lines(result)) + "\n"


@dataclass(frozen=True, slots=True)
class _Terminal:
    colours: bool
    columns: int

    def lines(self, result: SuiteResult) -> Iterator[str]:
        overview = overview_of(result)
        subject = f"{PROTOCOL_NAME} {result.protocol_version}, {scope(result)}: {who(result)}"
        yield self.styled(one_line(subject, MAX_TEXT), "bold")
        yield from self.labelled("command", join(result.command))
        yield ""
        for requirement in overview.broken[:MAX_PROBLEMS]:
            yield from self.problem(requirement, overview)
        for requirement in overview.broken[MAX_PROBLEMS:]:
            yield from self.in_short(requirement, overview, "also", "red")
        if len(overview.broken) > MAX_PROBLEMS:
            yield ""
        for vector in overview.unjudged:
            yield from self.lonely_vector(vector)
        remarks = list(self.remarks(result, overview))
        yield from remarks
        if remarks:
            yield ""
        played = f"{amount(result.executed, 'vector')} of {len(result.vectors)} played in {result.seconds:.1f} s"
        yield f"{counts_text(result)}; {played}, seed {seed_text(result)}"
        yield from self.labelled("left out", why_left_out(result))
        for reason, rules in by_reason(overview.never_exercised).items():
            named = ", ".join(rule.id for rule in rules[:MAX_NEVER]) + ("…" if len(rules) > MAX_NEVER else "")
            yield from self.labelled("never", f"{named} never exercised: {reason}", "yellow")
        if result.reached:
            yield from self.missing(result)
        tone = _TONES[result.verdict]
        verdict = f"{SIGNS[result.verdict]} {verdict_word(result).upper()}: {one_line(headline(result), MAX_TEXT)}"
        yield self.styled(verdict, tone, "bold")

    def remarks(self, result: SuiteResult, overview: Overview) -> Iterator[str]:
        for requirement in overview.warned:
            yield from self.in_short(requirement, overview, "warning", "yellow")
        for requirement in overview.known:
            yield from self.in_short(requirement, overview, "known", "yellow")
        for entry in result.stale:
            yield from self.labelled("stale", f"{entry} is a known failure that did not fail: take it out of the list")
        for vector_id in result.unstable:
            yield from self.labelled("unstable", f"{vector_id} did not end the same way in every repeat")
        if overview.without_a_tool:
            looked = amount(len(overview.without_a_tool), "vector")
            advice = "if the executor has tools that it may not use here, allow them with --base"
            yield from self.labelled("note", f"{looked} on tools showed nothing, since no tool was started: {advice}")

    def missing(self, result: SuiteResult) -> Iterator[str]:
        lines = missing_in_short(result)
        if lines:
            yield f"missing to {next_level(result)}:"
        for name, text in lines:
            if name.startswith("AOX"):
                yield shorten(f"  {name} {text}", self.columns - 1)
            else:
                yield from self.labelled(name, text)
        if lines:
            yield from self.labelled("more", f"ao conformance run --level {next_level(result)} shows each")

    def problem(self, requirement: RequirementResult, overview: Overview) -> Iterator[str]:
        place = f"{requirement.keyword}, {requirement.level}, SPEC {requirement.section}"
        yield self.heading(requirement.verdict, requirement.id, place)
        yield from self.wrapped(requirement.text)
        yield from self.labelled("reason", requirement.reason)
        exhibits = overview.exhibits(requirement)
        for number, exhibit in enumerate(exhibits[:MAX_EXHIBITS]):
            yield from self.exhibit(exhibit)
            if exhibit.vector and not number:
                yield from self.played(exhibit.vector, exhibit.finding.line)
        if len(exhibits) > MAX_EXHIBITS:
            yield from self.labelled("more", f"{amount(len(exhibits) - MAX_EXHIBITS, 'other finding')}, see a report")
        yield from self.labelled("rule", f"ao conformance explain {requirement.id}")
        yield ""

    def exhibit(self, exhibit: Exhibit) -> Iterator[str]:
        yield from self.labelled("expected", exhibit.finding.expected, "green")
        yield from self.labelled("found", exhibit.finding.found, "red")
        yield from self.labelled("hint", exhibit.vector.hint if exhibit.vector else "")
        title = f": {exhibit.vector.title}" if exhibit.vector else ""
        yield from self.labelled("vector", f"{exhibit.vector_id}{title}")
        if exhibit.also_in:
            more = f" and {len(exhibit.also_in) - MAX_NAMES} more" if len(exhibit.also_in) > MAX_NAMES else ""
            yield from self.labelled("also in", ", ".join(exhibit.also_in[:MAX_NAMES]) + more)

    def lonely_vector(self, vector: VectorResult) -> Iterator[str]:
        yield self.heading(vector.verdict, vector.id, ", ".join(vector.requirements))
        yield from self.wrapped(vector.title)
        yield from self.labelled("reason", vector.reason)
        for finding in vector.findings:
            yield from self.labelled("expected", f"{finding.requirement}: {finding.expected}", "green")
            yield from self.labelled("found", finding.found, "red")
        yield from self.played(vector, None)
        yield ""

    def in_short(self, requirement: RequirementResult, overview: Overview, label: str, tone: str) -> Iterator[str]:
        yield from self.labelled(label, f"{requirement.id} {requirement.text}", tone)
        for exhibit in overview.exhibits(requirement)[:1]:
            yield from self.labelled("found", f"{exhibit.finding.found} ({exhibit.vector_id})")

    def played(self, vector: VectorResult, line: int | None) -> Iterator[str]:
        for row in excerpt(transcript_rows(vector.transcript, line), MAX_ROWS):
            if row.left_out:
                yield self.styled(f"    … {row.left_out:,} left out", "dim")
            number = str(row.line or "")
            begin = f"  {'▸' if row.marked else ' '}{row.seconds:8.3f} {row.channel:>6} {number:>3}  "
            room = self.columns - len(begin)
            text = one_line(row.text, MAX_TEXT)
            if not row.marked:
                yield self.styled(begin, "dim") + shorten(text, max(room - 1, 1))
                continue
            for start in range(0, max(len(text), 1), room):
                yield self.styled(begin if not start else " " * len(begin), "dim") + self.styled(
                    text[start : start + room], "bold"
                )
        if vector.reproduce:
            yield f"  {self.styled('alone'.ljust(LABEL_COLUMNS), 'dim')}{one_line(vector.reproduce, 10 * MAX_TEXT)}"

    def heading(self, verdict: Verdict, name: str, place: str) -> str:
        sign = self.styled(f"{SIGNS[verdict]} {one_line(name, 200)}", _TONES[verdict], "bold")
        where = self.styled(f" ({one_line(place, 200)})", "dim") if place else ""
        return f"{sign} {WORDS[verdict]}{where}"

    def wrapped(self, text: str) -> Iterator[str]:
        for line in textwrap.wrap(one_line(text, MAX_TEXT), self.columns - 2):
            yield f"  {line}"

    def labelled(self, label: str, text: str, tone: str = "dim") -> Iterator[str]:
        wrapped = textwrap.wrap(one_line(text, MAX_TEXT), self.columns - LABEL_COLUMNS - 2)
        for number, line in enumerate(wrapped):
            begin = self.styled(label.ljust(LABEL_COLUMNS), tone) if not number else " " * LABEL_COLUMNS
            yield f"  {begin}{line}"

    def styled(self, text: str, *styles: str) -> str:
        codes = ";".join(_STYLES[style] for style in styles)
        return f"\x1b[{codes}m{text}\x1b[0m" if self.colours else text
