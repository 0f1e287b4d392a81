"""How responses look to people: compact lines and rows of a table. Pure: responses in, styled text out.

Every text comes from a model, so none may steer the terminal: control characters are gone, and those that change the
direction of what is written, so that it reads otherwise than it is.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

import click
from pydantic import JsonValue

from ao_protocol.output.agent_response import (
    AgentResponse,
    AggregatedResponse,
    Finding,
    MergedFile,
    MergedFinding,
    RelevantFile,
    Statement,
)
from ao_protocol.output.agent_response.plain_text import json_text
from ao_protocol.wire import JsonObject
from ao_runner.cli.narration import plain_text, shorten

COLOURS: Final = {"P1": "red", "P2": "yellow", "P3": "cyan"}
MAX_CELL_CHARACTERS: Final = 80
FINDING_COLUMNS: Final = ("PRIORITY", "LOCATION", "ISSUE", "AGENT")

_DIRECTIONS: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_BELOW: Final = " " * 6


def harmless(text: str) -> str:
    """Return text without what could steer a terminal or turn its writing round; line ends and tabs stay."""
    return _DIRECTIONS.sub("", plain_text(text))


def harmless_json(value: Mapping[str, object] | Sequence[JsonObject]) -> str:
    """Return indented JSON of JSON's own types, in which what could steer a terminal is escaped."""
    text = json_text(cast("JsonValue", value))  # lists and dicts are invariant, which matters to no reader
    return _DIRECTIONS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def response_lines(response: AgentResponse) -> Iterator[str]:
    """Yield a response in brief: agent and summary, findings, results, error."""
    yield f"{click.style(_line(response.agent), bold=True)}  {_line(response.summary)}"
    for finding in response.findings:
        yield from _finding(finding, ())
    if response.results is not None:
        yield from _files((file, ()) for file in response.results.files)
        yield from _text("answer", response.results.answer)
    yield from _text("error", response.error, "red")
    if response.agent_specific is not None:
        yield from _text("its own", ", ".join(response.agent_specific))


def aggregate_lines(merged: AggregatedResponse) -> Iterator[str]:
    """Yield what several agents said together: who said what in a line, then findings by priority, then the rest."""
    yield _counts(merged)
    for summary in merged.summaries:
        yield f"  {click.style(_line(summary.agent), bold=True)}  {_line(summary.text)}"
    yield ""
    for finding in merged.findings:
        yield from _finding(finding, finding.agents)
    yield from _files((file, file.agents) for file in merged.files)
    yield from _statements("answers", merged.answers)
    yield from _statements("errors", merged.errors, "red")
    owned = [Statement(agent=part.agent, text=", ".join(part.value)) for part in merged.agent_specific]
    yield from _statements("their own", owned)


def finding_rows(responses: Iterable[AgentResponse]) -> list[list[str]]:
    """Return a row of `FINDING_COLUMNS` for each finding, as they come."""
    return [_row(finding, [response.agent]) for response in responses for finding in response.findings]


def merged_rows(merged: AggregatedResponse) -> list[list[str]]:
    """Return a row of `FINDING_COLUMNS` for each finding, by priority."""
    return [_row(finding, finding.agents) for finding in merged.findings]


def _finding(finding: Finding | MergedFinding, agents: Sequence[str]) -> Iterator[str]:
    priority = click.style(finding.priority, fg=COLOURS[finding.priority], bold=True)
    location = f"{click.style(_line(finding.location), fg='blue')}  " if finding.location else ""
    yield f"  {priority}  {location}{_line(finding.issue)}{_by(agents)}"
    yield from _below(finding.rationale)
    for number, line in enumerate(_lines(finding.suggestion or "")):
        yield f"{_BELOW}{'  ' if number else '→ '}{line}"


def _files(files: Iterable[tuple[RelevantFile | MergedFile, Sequence[str]]]) -> Iterator[str]:
    for number, (file, agents) in enumerate(files):
        if number == 0:
            yield _heading("files")
        yield f"{_BELOW}{_line(file.path)}{_beside(file.relevance)}{_by(agents)}"


def _text(heading: str, text: str | None, colour: str | None = None) -> Iterator[str]:
    if text:
        yield _heading(heading, colour)
        yield from _below(text)


def _statements(heading: str, statements: list[Statement], colour: str | None = None) -> Iterator[str]:
    if statements:
        yield _heading(heading, colour)
    for statement in statements:
        yield f"{_BELOW}{click.style(_line(statement.agent), bold=True)}{_beside(statement.text)}"


def _counts(merged: AggregatedResponse) -> str:
    counts = Counter[str](finding.priority for finding in merged.findings)
    each = ", ".join(
        click.style(f"{counts[priority]} {priority}", fg=colour)
        for priority, colour in COLOURS.items()
        if counts[priority]
    )
    findings = f"{_counted(len(merged.findings), 'finding')}{f' ({each})' if each else ''}"
    return f"{_counted(len(merged.summaries), 'response')}, {findings}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _heading(text: str, colour: str | None = None) -> str:
    return f"  {click.style(text, fg=colour, dim=colour is None)}"


def _by(agents: Sequence[str]) -> str:
    return click.style(f"  ({', '.join(map(_line, agents))})", dim=True) if agents else ""


def _beside(text: str) -> str:
    return f"  {_line(text)}" if text else ""


def _below(text: str) -> Iterator[str]:
    yield from (f"{_BELOW}{line}" for line in _lines(text))


def _lines(text: str) -> Iterator[str]:
    yield from filter(None, map(_line, text.split("\n")))


def _line(text: str) -> str:
    return " ".join(harmless(text).split())


def _row(finding: Finding | MergedFinding, agents: Sequence[str]) -> list[str]:
    cells = (finding.priority, finding.location, finding.issue, ", ".join(agents))
    return [shorten(harmless(cell), MAX_CELL_CHARACTERS) for cell in cells]
