"""What agents answered before there was one format; nothing new is written in these.

| answer | becomes |
| --- | --- |
| `Findings:` and lines `- [P1] issue — file:line — rationale` | `findings` |
| `<results><files>- path — reason</files><answer>` | `results`; the agent is codebase-search |
| `<analysis>`, `<options>`, `<recommendation>` | `agent_specific`, of type architecture-advisory; the agent is oracle |
| `<hypotheses>`, with or without the others | the same, of type root-cause-analysis |
| `<agent_response>` around such lines, in which `<` and `&` are not escaped | `findings` |

These were never XML: their tags are looked for as text, each once, and what stands inside is taken as it is.
What a model only thought is no answer.
"""

import html
import re
from collections import Counter
from typing import Final

from ao_protocol.output.agent_response.line_items import (
    files_in,
    findings_in,
    has_finding_lines,
    says_nothing_else,
    says_nothing_was_found,
)
from ao_protocol.output.agent_response.model import PRIORITIES, UNKNOWN_AGENT, AgentResponse, response_from_document
from ao_protocol.output.agent_response.notes import Notes, RemarkKind
from ao_protocol.output.agent_response.plain_text import BLANKS
from ao_protocol.wire import JsonObject

_ORACLE_SECTIONS: Final = ("analysis", "options", "recommendation", "hypotheses")
_MOST_TELLING: Final = ("recommendation", "hypotheses", "analysis", "options")
_MAX_SUMMARY_CHARACTERS: Final = 200

_HEADER: Final = re.compile(r"^[ \t]{0,3}[#*]{0,6}[ \t]?findings[*]{0,3}:[*]{0,3}", re.IGNORECASE | re.MULTILINE)
_FILE_ELEMENT: Final = re.compile(r"""<file\s+path=["']([^"'<>]*)["']\s*>([^<]*)</file>""")
_WRAPPER: Final = re.compile(r"<agent_response\b([^<>]{0,2000})>")
_ATTRIBUTE: Final = re.compile(r"""\b(agent|version)=(?:"([^"]*)"|'([^']*)')""")


def read_older(text: str, notes: Notes, agent: str | None = None) -> AgentResponse | None:
    """Return what an answer in the older formats says, also in several of them; None where it is in none.

    Raises:
        UnexpectedContent: a finding has a priority that does not exist, or no issue.
    """
    for thinking in ("thinking", "think"):
        _, text = _cut_out(text, thinking)
    results, text = _results(text)
    specific, text = _oracle(text)
    findings = _findings(text, notes)
    if results is None and specific is None and findings is None:
        return None
    notes.settle()
    for part, what in ((results, "<results>"), (specific, "sections of an adviser"), (findings, "lines of findings")):
        if part is not None:
            notes.remark(RemarkKind.OLDER, "the text", what)
    named = "codebase-search" if results is not None else "oracle" if specific is not None else UNKNOWN_AGENT
    return response_from_document(
        {
            "agent": agent or named,
            "summary": _summary(findings, results, specific),
            "findings": findings or [],
            "results": results,
            "agent_specific": specific,
        }
    )


def read_older_wrapper(text: str, notes: Notes, agent: str | None = None) -> AgentResponse | None:
    """Return what a wrapper that is no XML says with the finding lines inside; None where it is no such wrapper."""
    start = _WRAPPER.search(text)
    if start is None or not has_finding_lines(text):
        return None
    attributes = {name: html.unescape(double or single) for name, double, single in _ATTRIBUTE.findall(start[1])}
    inside = text[start.end() :]
    summary, inside = _cut_out(inside, "summary")
    wrapped, _ = _cut_out(inside, "findings")
    findings = _findings(wrapped, notes) if wrapped is not None else None
    if findings is None:
        return None
    notes.settle()
    notes.remark(RemarkKind.OLDER, "<agent_response>", "a wrapper around lines of text that is no XML")
    return response_from_document(
        {"agent": agent or UNKNOWN_AGENT, **attributes}
        | {"summary": summary or _summary(findings, None, None), "findings": findings}
    )


def _results(text: str) -> tuple[JsonObject | None, str]:
    inner, rest = _cut_out(text, "results")
    listed, beside = _cut_out(text if inner is None else inner, "files")
    if inner is None and listed is None:
        return None, text
    answer, beside = _cut_out(beside, "answer")
    files: list[JsonObject] = [
        {"path": html.unescape(path), "relevance": html.unescape(relevance)}
        for path, relevance in _FILE_ELEMENT.findall(listed or "")
    ]
    results: JsonObject = {"files": [*(files or files_in(listed or ""))], "answer": answer}
    return results, beside if inner is None else rest


def _oracle(text: str) -> tuple[JsonObject | None, str]:
    sections: JsonObject = {}
    for name in _ORACLE_SECTIONS:
        inner, text = _cut_out(text, name)
        if inner is not None:
            sections[name] = inner
    if not sections:
        return None, text
    kind = "root-cause-analysis" if "hypotheses" in sections else "architecture-advisory"
    return {"type": kind, **sections}, text


def _findings(text: str, notes: Notes) -> list[JsonObject] | None:
    if has_finding_lines(text):
        return findings_in(text, notes)
    if says_nothing_else(text):
        return []
    header = _HEADER.search(text)
    return [] if header is not None and says_nothing_was_found(text[header.end() :]) else None


def _cut_out(text: str, tag: str) -> tuple[str | None, str]:
    """Return what stands between the first opening tag and the next closing one, and the text around."""
    start = re.search(rf"<{tag}\s*>", text, re.IGNORECASE)
    end = re.compile(rf"</{tag}\s*>", re.IGNORECASE).search(text, start.end()) if start else None
    if start is None or end is None:
        return None, text
    return text[start.end() : end.start()].strip(BLANKS), text[: start.start()] + "\n" + text[end.end() :]


def _summary(findings: list[JsonObject] | None, results: JsonObject | None, specific: JsonObject | None) -> str:
    if findings:
        counts = Counter(str(finding["priority"]) for finding in findings)
        each = ", ".join(f"{counts[priority]} {priority}" for priority in PRIORITIES if counts[priority])
        return f"{_counted(len(findings), 'finding')}: {each}"
    told = [str(results.get("answer") or "")] if results else []
    told += [str(specific[name]) for name in _MOST_TELLING if name in specific] if specific else []
    for text in told:
        if text:
            return _first_line(text)
    if results is not None:
        files = results["files"]
        return f"{_counted(len(files) if isinstance(files, list) else 0, 'file')} found"
    return "No findings" if findings is not None else "No text"


def _first_line(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= _MAX_SUMMARY_CHARACTERS else line[:_MAX_SUMMARY_CHARACTERS] + "…"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
