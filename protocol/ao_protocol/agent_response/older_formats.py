"""A reader for the formats that agents used before the common format. Nothing is written in these formats any more.

| answer | becomes |
| --- | --- |
| `Findings:` and lines `- [P1] issue — file:line — rationale` | `findings` |
| `<results><files>- path — reason</files><answer>` | `results`; the agent is codebase-search |
| `<analysis>`, `<options>`, `<recommendation>` | `agent_specific`, of type architecture-advisory; the agent is oracle |
| `<hypotheses>`, with or without the others | the same, of type root-cause-analysis |
| `<agent_response>` around finding lines in which `<` and `&` are not escaped | `findings` |

These formats are not XML: their tags are searched as text, each once, and their content is read as it is. The thinking
of a model is not an answer.
"""

import html
import re
from collections import Counter
from typing import Final

from ao_protocol.agent_response.finding_lines import files_in, findings_in, has_finding_lines, says_nothing
from ao_protocol.agent_response.model import (
    BLANKS,
    PRIORITIES,
    UNKNOWN_AGENT,
    AgentResponse,
    Notes,
    RemarkKind,
    response_from_document,
)
from ao_protocol.short_text import shorten
from ao_protocol.wire import JsonObject

_ADVICE: Final = ("analysis", "options", "recommendation", "hypotheses")
_SUMMARIES_OF_ADVICE: Final = ("recommendation", "hypotheses", "analysis", "options")
_MAX_SUMMARY_CHARACTERS: Final = 200

_HEADER: Final = re.compile(r"^[ \t]{0,3}[#*]{0,6}[ \t]?findings[*]{0,3}:[*]{0,3}", re.IGNORECASE | re.MULTILINE)
_NO_FINDINGS: Final = re.compile(r"no (?:findings|issues)(?: found)?\.?", re.IGNORECASE)
_WRAPPER: Final = re.compile(r"<agent_response(?=\s[^<>]{0,2000}\bagent=)([^<>]{0,2000})>")
_ATTRIBUTE: Final = re.compile(r"""\b(agent|version)=(?:"([^"]*)"|'([^']*)')""")


def read_older(text: str, notes: Notes, agent: str | None = None) -> AgentResponse | None:
    """Return the response in an answer of one or several older formats; None if it is in none of them.

    Raises:
        UnexpectedContent: A finding has an unknown priority, or no issue.
    """
    document: dict[str, object] = {}
    wrapper = _WRAPPER.search(text)
    if wrapper is not None:
        # Other content of broken XML could only be read in part.
        if not has_finding_lines(text[wrapper.end() :]):
            return None
        document = {name: html.unescape(double or single) for name, double, single in _ATTRIBUTE.findall(wrapper[1])}
        text = text[wrapper.end() :].partition("</agent_response>")[0]
        for name in ("summary", "error"):
            inner, text = _cut_out(text, name)
            document |= {name: inner} if inner else {}
        text = re.sub("</?findings>", "", text)
    for thinking in ("thinking", "think"):
        _, text = _cut_out(text, thinking)
    results, text = _results(text)
    advice, text = _advice(text)
    findings = _findings(text, notes)
    if results is None and not advice and findings is None:
        return None
    notes.settle()
    if wrapper is not None:
        notes.remark(RemarkKind.OLDER, "<agent_response>", "a wrapper around lines of text that is no XML")
    parts = ((results, "<results>"), (advice or None, "sections of an adviser"), (findings, "lines of findings"))
    for part, what in parts:
        if part is not None and wrapper is None:
            notes.remark(RemarkKind.OLDER, "the text", what)
    named = "codebase-search" if results is not None else "oracle" if advice else UNKNOWN_AGENT
    return response_from_document(
        {
            "agent": agent or named,
            "summary": _summary(findings, results, advice),
            "findings": findings or [],
            "results": results,
            "agent_specific": advice or None,
            **document,
        }
    )


def _results(text: str) -> tuple[JsonObject | None, str]:
    inner, rest = _cut_out(text, "results")
    listed, beside = _cut_out(text if inner is None else inner, "files")
    if inner is None and listed is None:
        return None, text
    answer, beside = _cut_out(beside, "answer")
    results: JsonObject = {"files": [*files_in(listed or "")], "answer": answer}
    return results, beside if inner is None else rest


def _advice(text: str) -> tuple[JsonObject, str]:
    sections: JsonObject = {}
    for name in _ADVICE:
        inner, text = _cut_out(text, name)
        sections |= {} if inner is None else {name: inner}
    kind = "root-cause-analysis" if "hypotheses" in sections else "architecture-advisory"
    return {"type": kind, **sections} if sections else {}, text


def _findings(text: str, notes: Notes) -> list[JsonObject] | None:
    if has_finding_lines(text):
        return findings_in(text, notes)
    header = _HEADER.search(text)
    is_empty = says_nothing(text[header.end() :]) if header else _NO_FINDINGS.fullmatch(text.strip(BLANKS))
    return [] if is_empty else None


def _cut_out(text: str, tag: str) -> tuple[str | None, str]:
    """Return the text between the first opening tag and the next closing one (else None), and the text around it."""
    start = re.search(rf"<{tag}\s*>", text, re.IGNORECASE)
    end = re.compile(rf"</{tag}\s*>", re.IGNORECASE).search(text, start.end()) if start else None
    if start is None or end is None:
        return None, text
    return text[start.end() : end.start()].strip(BLANKS), text[: start.start()] + "\n" + text[end.end() :]


def _summary(findings: list[JsonObject] | None, results: JsonObject | None, advice: JsonObject) -> str:
    if findings:
        counts = Counter(str(finding["priority"]) for finding in findings)
        each = ", ".join(f"{counts[priority]} {priority}" for priority in PRIORITIES if counts[priority])
        return f"{len(findings)} finding{'s' if len(findings) > 1 else ''}: {each}"
    texts = [results["answer"]] if results else []
    texts += [advice[name] for name in _SUMMARIES_OF_ADVICE if name in advice]
    line = next((str(text).split("\n", 1)[0] for text in texts if text), "")
    if not line and results:
        files = results["files"]
        count = len(files) if isinstance(files, list) else 0
        line = f"{count} file{'s' if count != 1 else ''} found"
    line = line or ("No findings" if findings is not None else "No text")
    return shorten(line, _MAX_SUMMARY_CHARACTERS)
