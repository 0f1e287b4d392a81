"""How responses look to people, in compact lines. Pure: responses in, styled text out.

Every text comes from a model and must not control the terminal: control characters are removed, and those that change
the direction of writing.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

import click
from pydantic import JsonValue

from ao_protocol.agent_response import AgentResponse, AggregatedResponse, Finding, MergedFinding
from ao_protocol.agent_response.model import json_text
from ao_protocol.wire import JsonObject
from ao_runner.cli.narration import plain_text

COLOURS: Final = {"P1": "red", "P2": "yellow", "P3": "cyan"}

_DIRECTIONS: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_BELOW: Final = " " * 6


def harmless(text: str) -> str:
    """Return text without what could control a terminal or reverse its writing; line ends and tabs stay."""
    return _DIRECTIONS.sub("", plain_text(text))


def harmless_json(value: Mapping[str, object] | Sequence[JsonObject]) -> str:
    """Return indented JSON in which what could control a terminal is escaped."""
    text = json_text(cast("JsonValue", value))  # lists and dicts are invariant, which matters to no reader
    return _DIRECTIONS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def response_lines(response: AgentResponse) -> Iterator[str]:
    """Yield a response in brief: agent and summary, findings, results, error."""
    yield f"{click.style(_line(response.agent), bold=True)}  {_line(response.summary)}"
    for finding in response.findings:
        yield from _finding(finding)
    if response.results is not None:
        yield from _part("files", (_beside(_line(file.path), file.relevance) for file in response.results.files))
        yield from _part("answer", _lines(response.results.answer))
    yield from _part("error", _lines(response.error), "red")
    yield from _part("its own", _lines(", ".join(response.agent_specific or ())))


def aggregate_lines(merged: AggregatedResponse) -> Iterator[str]:
    """Yield what several agents said: a line for each, then findings by priority, then the rest."""
    counts = Counter[str](finding.priority for finding in merged.findings)
    styled = [click.style(f"{counts[each]} {each}", fg=colour) for each, colour in COLOURS.items() if counts[each]]
    by_priority = f" ({', '.join(styled)})" if styled else ""
    yield f"{_counted(len(merged.summaries), 'response')}, {_counted(len(merged.findings), 'finding')}{by_priority}"
    yield from (f"  {_beside(_agent(summary.agent), summary.text)}" for summary in merged.summaries)
    yield ""
    for finding in merged.findings:
        yield from _finding(finding, finding.agents)
    yield from _part("files", (_beside(_line(each.path), each.relevance) + _by(each.agents) for each in merged.files))
    yield from _part("answers", (_beside(_agent(answer.agent), answer.text) for answer in merged.answers))
    yield from _part("errors", (_beside(_agent(error.agent), error.text) for error in merged.errors), "red")
    yield from _part("their own", (_beside(_agent(own.agent), ", ".join(own.value)) for own in merged.agent_specific))


def _finding(finding: Finding | MergedFinding, agents: Sequence[str] = ()) -> Iterator[str]:
    priority = click.style(finding.priority, fg=COLOURS[finding.priority], bold=True)
    location = f"{click.style(_line(finding.location), fg='blue')}  " if finding.location else ""
    yield f"  {priority}  {location}{_line(finding.issue)}{_by(agents)}"
    yield from (f"{_BELOW}{line}" for line in _lines(finding.rationale))
    for number, line in enumerate(_lines(finding.suggestion)):
        yield f"{_BELOW}{'  ' if number else '→ '}{line}"


def _part(heading: str, lines: Iterable[str], colour: str | None = None) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == 0:
            yield f"  {click.style(heading, fg=colour, dim=colour is None)}"
        yield f"{_BELOW}{line}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _agent(name: str) -> str:
    return click.style(_line(name), bold=True)


def _by(agents: Sequence[str]) -> str:
    return click.style(f"  ({', '.join(map(_line, agents))})", dim=True) if agents else ""


def _beside(name: str, text: str) -> str:
    return f"{name}  {_line(text)}" if text else name


def _lines(text: str | None) -> Iterator[str]:
    yield from filter(None, map(_line, (text or "").split("\n")))


def _line(text: str) -> str:
    return " ".join(harmless(text).split())
