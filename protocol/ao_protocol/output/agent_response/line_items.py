"""Findings and files as lines: `- [P1] issue — file:line — rationale` and `- path — relevance`, written and read.

What is written here is read back exactly, since an em dash that stands alone in a field, and whatever else would be
read as a mark, is written as a reference. How the fields of what a model wrote are told apart: see `finding_fields`.
"""

import re
from collections.abc import Iterator
from typing import Final

from ao_protocol.output.agent_response.finding_fields import DASHES, EM_DASH, fields_of
from ao_protocol.output.agent_response.list_items import Item, list_items, without_indent
from ao_protocol.output.agent_response.model import PRIORITIES, Finding, RelevantFile
from ao_protocol.output.agent_response.notes import Notes
from ao_protocol.output.agent_response.places_in_text import is_place, unframed, without_places
from ao_protocol.output.agent_response.plain_text import BLANKS
from ao_protocol.output.agent_response.references import reference_to, resolve_references, without_references
from ao_protocol.output.agent_response.refusals import UnexpectedContent, excerpt
from ao_protocol.wire import JsonObject

FINDING_LINE: Final = "- [P1] issue — file:line — rationale"

_FINDING: Final = re.compile(
    r"^[ \t]*(?:(?:[-*+•–—]|[0-9]{1,3}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?(?:[^\x00-\x7f\w\s—–]{1,3}[ \t]+)?"
    r"(?P<opened>\*\*|__|`)?"
    r"(?:[\[(][ \t]?(?P<framed>P[0-9]{1,2})[ \t]?[\])]|(?P<bare>P[0-9])(?=(?:\*\*|__|`)?(?::|[ \t]+[—–-][ \t])))"
    r"(?P<closed>\*\*|__|`)?[ \t]*(?:[:–—-](?=[ \t]))?[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_BULLET: Final = re.compile(r"[ \t]*(?:[-*+•]|[0-9]{1,3}[.)])[ \t]+")
_NO_BULLET: Final = re.compile(r"[ \t]*(?=[^ \t])(?!```)")
_SUGGESTION: Final = re.compile(
    r"(?:[-*+•][ \t]+)?(?:\*\*|__|_)?suggestion(?:\*\*|__|_)?:(?:\*\*|__|_)?[ \t]*", re.IGNORECASE
)
_NOTHING: Final = re.compile(
    r"(?:[#*_]{0,3}[ \t]?findings?[ \t]?[*_]{0,3}:?[*_]{0,3})?\s?\s?(?:[-*] )?[(*_]{0,3}"
    r"(?:none|nothing|n/a|no(?: (?:actionable|additional|blocking|critical|further|major|matching|minor|more|new"
    r"|notable|obvious|other|performance|relevant|security|serious|significant)){0,3}"
    r" (?P<what>findings?|issues?|problems?|vulnerabilit(?:y|ies)|concerns?|files?|results?|matche?s?))"
    r"(?: (?:was|were|are|is|to|have been|has been))?(?: (?:found|report(?:ed)?|identified|detected|present|seen))?"
    r"(?=[ \t]*(?:[.!,;)*_\n]|\Z)|[ \t]+[-—–]|[ \t](?:in|at|with|for|here)\b)",
    re.IGNORECASE,
)
_RESERVATION: Final = re.compile(
    r"\b(?:but|except|however|although|though|apart|besides|other than|only|unless|still|yet)\b", re.IGNORECASE
)
_COLON: Final = re.compile(r":(?=[ \t])")
_BETWEEN_PATH_AND_RELEVANCE: Final = (*DASHES, _COLON)
_MARKS_AT_THE_BEGINNING: Final = "*`:–—-"
_FRAMES_OF_A_LOCATION: Final = "([<\"'“‘"
_MAX_NOTHING_CHARACTERS: Final = 200


def finding_lines(finding: Finding) -> Iterator[str]:
    """Yield the lines of one finding, exact for `findings_in`."""
    first, *others = _body(finding).split("\n")
    yield f"- [{finding.priority}] {first}"
    yield from (_indented(_not_a_suggestion(line), 2) for line in others)
    if finding.suggestion is not None:
        first, *others = without_references(finding.suggestion).split("\n")
        yield f"  - Suggestion: {first}"
        yield from (_indented(line, 4) for line in others)


def _body(finding: Finding) -> str:
    location = _written(finding.location)
    if location and location[0] in _FRAMES_OF_A_LOCATION:
        location = reference_to(location[0]) + location[1:]
    fields = (_written(finding.issue), location, _written(finding.rationale))
    body = " — ".join(fields)
    if is_place(location) or tuple(field.strip(BLANKS) for field in fields_of(body)) == fields:
        return body
    return " — ".join(map(without_places, fields))


def file_lines(file: RelevantFile) -> Iterator[str]:
    """Yield the lines of one file, exact for `files_in`."""
    first, *others = f"{_written(file.path)} — {without_references(file.relevance)}".split("\n")
    yield f"- {first}"
    yield from (_indented(line, 2) for line in others)


def _written(text: str) -> str:
    text = EM_DASH.sub(reference_to("—"), without_references(text))
    return reference_to(text[0]) + text[1:] if text and text[0] in _MARKS_AT_THE_BEGINNING else text


def _not_a_suggestion(line: str) -> str:
    return reference_to(line[0]) + line[1:] if _SUGGESTION.match(line) else line


def _indented(line: str, width: int) -> str:
    return " " * width + line if line else ""


def has_finding_lines(text: str) -> bool:
    """Tell whether a line begins as a finding does."""
    return _FINDING.search(text) is not None


def says_nothing_was_found(text: str) -> bool:
    """Tell whether a text says in words that there are no findings or no files, without a but."""
    beginning = text.strip(BLANKS)[:_MAX_NOTHING_CHARACTERS]
    return _NOTHING.match(beginning) is not None and _RESERVATION.search(beginning) is None


def says_nothing_else(text: str) -> bool:
    """Tell whether "No findings", or such words, are the whole text."""
    line = text.strip(BLANKS)
    found = _NOTHING.match(line) if len(line) <= _MAX_NOTHING_CHARACTERS and "\n" not in line else None
    return found is not None and found["what"] is not None and _RESERVATION.search(line) is None


def findings_in(text: str, notes: Notes, first_line: int = 1) -> list[JsonObject]:
    """Return the findings that stand in a text as lines; text around them is passed over.

    A problem is noted where there is no such line and the text does not say that nothing was found, and where a line
    has a priority that does not exist, or no issue.
    """
    findings = [_finding(item, notes) for item in list_items(text, _FINDING, first_line)]
    if not findings and text.strip(BLANKS) and not says_nothing_was_found(text):
        expected = f"lines such as {FINDING_LINE!r}"
        notes.refuse(UnexpectedContent(f"line {first_line}", excerpt(text.strip(BLANKS)), expected))
    return findings


def _finding(item: Item, notes: Notes) -> JsonObject:
    priority = (item.mark["framed"] or item.mark["bare"]).upper()
    if priority not in PRIORITIES:
        notes.refuse(UnexpectedContent(f"line {item.line}", f"the priority {priority}", "P1, P2 or P3"))
    body, suggestion = _suggestion_apart(item.lines)
    if item.mark["opened"] and not item.mark["closed"]:
        body = body.replace(item.mark["opened"], "", 1)
    issue, location, rationale = fields_of(body)
    finding: JsonObject = {"priority": priority, "location": resolve_references(unframed(location.strip(BLANKS)))}
    finding |= {"issue": _read(issue), "rationale": _read(rationale)}
    if not finding["issue"]:
        notes.refuse(UnexpectedContent(f"line {item.line}", "no issue", f"a line such as {FINDING_LINE!r}"))
    return finding if suggestion is None else finding | {"suggestion": suggestion}


def _suggestion_apart(lines: list[str]) -> tuple[str, str | None]:
    for number, line in enumerate(lines[1:], 1):
        mark = _SUGGESTION.match(line)
        if mark is not None:
            suggestion = [line[mark.end() :], *(without_indent(further, 2) for further in lines[number + 1 :])]
            return "\n".join(lines[:number]), resolve_references("\n".join(suggestion))
    return "\n".join(lines), None


def files_in(text: str) -> list[JsonObject]:
    """Return the files that stand in a text as lines, with a bullet or all without one."""
    if says_nothing_was_found(text) and not EM_DASH.search(text):  # a file may be called none
        return []
    items = list(list_items(text, _BULLET)) or list(list_items(text, _NO_BULLET))
    return [file for item in items if (file := _file("\n".join(item.lines)))["path"]]


def _file(body: str) -> JsonObject:
    for separator in _BETWEEN_PATH_AND_RELEVANCE:
        found = separator.search(body)
        if found is not None:
            relevance = resolve_references(body[found.end() :].strip(BLANKS))
            return {"path": _read(body[: found.start()]), "relevance": relevance}
    return {"path": _read(body), "relevance": ""}


def _read(field: str) -> str:
    return resolve_references(_undecorated(field.strip(BLANKS)))


def _undecorated(text: str) -> str:
    for mark in ("**", "`"):
        inner = text[len(mark) : -len(mark)]
        if inner and text.startswith(mark) and text.endswith(mark) and mark not in inner:
            return inner
    return text
