"""The Markdown form: front matter with agent and version, then a section for each part of the response.

A line of a text that would be read as one of these headings is written with a reference for its first `#`.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ao_protocol.ijson import NotIJson, decode_object
from ao_protocol.output.agent_response.front_matter import front_matter_lines, read_front_matter
from ao_protocol.output.agent_response.line_items import (
    file_lines,
    files_in,
    finding_lines,
    findings_in,
    has_finding_lines,
)
from ao_protocol.output.agent_response.model import AgentResponse, response_from_document
from ao_protocol.output.agent_response.notes import Notes
from ao_protocol.output.agent_response.plain_text import BLANKS, json_text
from ao_protocol.output.agent_response.references import reference_to, resolve_references, without_references
from ao_protocol.output.agent_response.refusals import NotWellFormed, UnexpectedContent
from ao_protocol.output.agent_response.unknown_names import remark_unknown_names
from ao_protocol.wire import JsonObject

MARKDOWN_INSTRUCTIONS: Final = """\
Answer with Markdown and nothing else, in this form:

---
agent: your-name
version: "1.0"
---

## Summary

What you did, in one sentence

## Findings

- [P1] What is wrong — src/file.py:12 — Why it matters
  - Suggestion: How to mend it

## Results

### Files

- src/file.py — Why this file matters

### Answer

The direct answer to the question

## Error

Why you could not do what was asked

## Agent-Specific

What only you have to say

Only the front matter and the summary are required; leave out what does not apply. A priority is P1 (most important),
P2 or P3. The parts of a finding are separated by " — "; further lines of it are indented by two spaces."""

_HEADING: Final = re.compile(
    r"#{1,6}[ \t]+(?:\*\*)?(summary|findings|results|files|answer|error|agent[-_ ]specific)(?:\*\*)?:?", re.IGNORECASE
)
_FINDINGS_LINE: Final = re.compile(r"[*_]{0,3}findings[*_]{0,3}:[*_]{0,3}[ \t]*", re.IGNORECASE)
_LONGEST_HEADING: Final = 80
_LIKE_A_HEADING: Final = re.compile(r"^#.*", re.MULTILINE)
_FENCE: Final = re.compile(r"(?P<marks>`{3,})(?:json)?[ \t]*\n(?P<body>.*)\n(?P=marks)", re.DOTALL | re.IGNORECASE)


@dataclass(slots=True)
class _Section:
    line: int
    text: str


def write_markdown(response: AgentResponse) -> str:
    """Return the response as Markdown with front matter."""
    return "\n".join(_lines(response)).rstrip(BLANKS) + "\n"


def _lines(response: AgentResponse) -> Iterator[str]:
    yield from front_matter_lines({"agent": response.agent, "version": response.version})
    yield from _section("## Summary", response.summary)
    if response.findings:
        yield from ("## Findings", "")
        for finding in response.findings:
            yield from finding_lines(finding)
        yield ""
    if response.results is not None:
        yield from ("## Results", "")
        if response.results.files:
            yield from ("### Files", "")
            for file in response.results.files:
                yield from file_lines(file)
            yield ""
        if response.results.answer is not None:
            yield from _section("### Answer", response.results.answer)
    if response.error is not None:
        yield from _section("## Error", response.error)
    if response.agent_specific is not None:
        yield from ("## Agent-Specific", "", "```json", json_text(response.agent_specific), "```")


def _section(heading: str, text: str) -> Iterator[str]:
    yield from (heading, "")
    for line in without_references(text).split("\n"):
        yield line if _heading_in(line) is None else reference_to("#") + line[1:]
    yield ""


def read_markdown(text: str, notes: Notes, agent: str | None = None) -> AgentResponse:
    """Return the response that a Markdown text describes; `agent` is its name where no front matter gives it.

    Without front matter a line `Findings:` is a heading too, and findings stand wherever their lines do.

    Raises:
        NotWellFormed: the front matter, or what is fenced as JSON, cannot be read.
        UnexpectedContent: a section is there twice, or what has to be there is missing.
        UnsupportedResponseVersion, InvalidResponse: as `response_from_document` says.
    """
    front, body, first_line = read_front_matter(text)
    sections = _sections(body, first_line, _heading_in if front else _loose_heading_in, notes)
    if not front and "findings" not in sections and has_finding_lines(body):
        sections["findings"] = _Section(first_line, body)
    document: dict[str, object] = {"agent": agent, **front} if agent else {**front}
    if "agent" not in document:
        notes.refuse(UnexpectedContent("the front matter", "no agent", "a line such as 'agent: your-name'"))
    if not sections.get("summary", _Section(1, "")).text:
        notes.refuse(UnexpectedContent("the text", "no summary", "a section '## Summary' with a text"))
    for name in ("summary", "error"):
        if name in sections:
            document[name] = resolve_references(sections[name].text)
    if "findings" in sections:
        document["findings"] = findings_in(sections["findings"].text, notes, sections["findings"].line)
    if sections.keys() & {"results", "files", "answer"}:
        document["results"] = _results(sections)
    if "agent_specific" in sections:
        document["agent_specific"] = _specific(sections["agent_specific"], notes)
    notes.settle()
    remark_unknown_names(front, notes)
    return response_from_document({key: document[key] for key in document if key in AgentResponse.model_fields})


def has_summary_heading(text: str) -> bool:
    """Tell whether a line is the heading of a summary."""
    return any(_heading_in(line[0]) == "summary" for line in _LIKE_A_HEADING.finditer(text))


def _sections(body: str, first_line: int, heading_in: Callable[[str], str | None], notes: Notes) -> dict[str, _Section]:
    sections: dict[str, _Section] = {}
    open_lines: dict[str, list[str]] = {}
    name = ""
    for number, line in enumerate(body.split("\n"), first_line):
        heading = heading_in(line)
        if heading is None or (heading == name and not line.startswith("#")):
            open_lines.setdefault(name, []).append(line)
            continue
        if heading in sections:
            notes.refuse(UnexpectedContent(f"line {number}", f"a second section {heading!r}", "one at most"))
            name = ""
            continue
        name = heading
        sections[name] = _Section(number + 1, "")
    for heading, section in sections.items():
        lines = open_lines.get(heading, [])
        # The indentation of the first line stays: where the section is a list, it counts.
        blank = next((index for index, line in enumerate(lines) if line.strip(BLANKS)), len(lines))
        section.line += blank
        section.text = "\n".join(lines[blank:]).rstrip(BLANKS)
    return sections


def _heading_in(line: str) -> str | None:
    if not line.startswith("#") or len(line) > _LONGEST_HEADING:
        return None
    found = _HEADING.fullmatch(line.rstrip(BLANKS))
    return re.sub("[-_ ]", "_", found[1].lower()) if found else None


def _loose_heading_in(line: str) -> str | None:
    return _heading_in(line) or ("findings" if _FINDINGS_LINE.fullmatch(line[:_LONGEST_HEADING]) else None)


def _results(sections: dict[str, _Section]) -> dict[str, object]:
    results: dict[str, object] = {}
    if "files" in sections:
        results["files"] = files_in(sections["files"].text)
    if "answer" in sections:
        results["answer"] = resolve_references(sections["answer"].text)
    elif "results" in sections and sections["results"].text:
        results["answer"] = resolve_references(sections["results"].text)
    return results


def _specific(section: _Section, notes: Notes) -> JsonObject:
    fenced = _FENCE.fullmatch(section.text)
    if fenced is None:
        return {"text": resolve_references(section.text)}
    try:
        return decode_object(fenced["body"].encode())
    except NotIJson as error:
        notes.refuse(NotWellFormed(f"line {section.line}, agent-specific", str(error), "one JSON object"))
        return {}
