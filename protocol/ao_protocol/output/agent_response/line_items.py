"""Findings and files as lines: `- [P1] issue — file:line — rationale` and `- path — relevance`, written and read.

What is written here is read back exactly, by position, since an em dash that stands alone in a field is written as a
reference. What a model wrote may use other dashes, or too many: then the part that looks like a place in a file is
the location. A part is never changed, so dashes that separate nothing stay what they were.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from ao_protocol.output.agent_response.list_items import Item, list_items, without_indent
from ao_protocol.output.agent_response.model import PRIORITIES, Finding, RelevantFile
from ao_protocol.output.agent_response.plain_text import BLANKS
from ao_protocol.output.agent_response.references import reference_to, resolve_references, without_references
from ao_protocol.output.agent_response.refusals import UnexpectedContent, excerpt
from ao_protocol.wire import JsonObject

FINDING_LINE: Final = "- [P1] issue — file:line — rationale"

_FINDING: Final = re.compile(
    r"^[ \t]*(?:(?:[-*+•–—]|[0-9]{1,3}[.)])[ \t]+)?(?:\*\*|__|`)?"
    r"(?:[\[(](?P<framed>P[0-9]{1,2})[\])]|(?P<bare>P[0-9])(?=:))(?:\*\*|__|`)?[ \t]*(?:[:–—-](?=[ \t]))?[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_BULLET: Final = re.compile(r"[ \t]*(?:[-*+•]|[0-9]{1,3}[.)])[ \t]+")
_NO_BULLET: Final = re.compile(r"[ \t]*(?=[^ \t])(?!```)")
_SUGGESTION: Final = re.compile(
    r"(?:[-*+•][ \t]+)?(?:\*\*|__|_)?suggestion(?:\*\*|__|_)?:(?:\*\*|__|_)?[ \t]*", re.IGNORECASE
)
_NOTHING: Final = re.compile(
    r"(?:[#*]*[ \t]?findings?[ \t]?[*]*:?[*]*)?\s?\s?(?:[-*] )?\(?(?:none|no|nothing|n/a)\b", re.IGNORECASE
)

_EM_DASH: Final = re.compile(r"(?<![^ \t\n])—(?![^ \t\n])")
_ANY_DASH: Final = re.compile(r"(?<![^ \t\n])(?:—|–|--|-)(?![^ \t\n])")
_SEPARATORS: Final = (
    _EM_DASH,
    re.compile(r"(?<![^ \t\n])–(?![^ \t\n])"),
    re.compile(r"(?<![^ \t\n])--(?![^ \t\n])"),
    re.compile(r"(?<![^ \t\n])-(?![^ \t\n])"),
    _ANY_DASH,
    re.compile("—"),
)
_COLON: Final = re.compile(r":(?=[ \t])")

_PLACE: Final = re.compile(
    r"[`*(\[]*(?:[^\s/\\]*[/\\][^\s]*|[^\s:]*\.[A-Za-z][A-Za-z0-9]{0,9}(?:[:#(][^\s]*)?|[^\s:]+:L?[0-9][^\s]*)"
)
_BESIDE_A_PLACE: Final = re.compile(r"(?:lines?|and|&|L?[0-9]+(?:[-–:][0-9]+)?)[,;)`*\]]*", re.IGNORECASE)
_MAX_LOCATION_CHARACTERS: Final = 400
_MAX_SEPARATORS: Final = 32
"""Behind so many, a dash is part of the rationale."""
_MARKS_AT_THE_BEGINNING: Final = "*`:–—-"


def finding_lines(finding: Finding) -> Iterator[str]:
    """Yield the lines of one finding, exact for `findings_in`."""
    fields = (_written(finding.issue), _written(finding.location), _written(finding.rationale))
    first, *others = " — ".join(fields).split("\n")
    yield f"- [{finding.priority}] {first}"
    yield from (_indented(_not_a_suggestion(line), 2) for line in others)
    if finding.suggestion is not None:
        first, *others = without_references(finding.suggestion).split("\n")
        yield f"  - Suggestion: {first}"
        yield from (_indented(line, 4) for line in others)


def file_lines(file: RelevantFile) -> Iterator[str]:
    """Yield the lines of one file, exact for `files_in`."""
    first, *others = f"{_written(file.path)} — {without_references(file.relevance)}".split("\n")
    yield f"- {first}"
    yield from (_indented(line, 2) for line in others)


def _written(text: str) -> str:
    text = _EM_DASH.sub(reference_to("—"), without_references(text))
    return reference_to(text[0]) + text[1:] if text and text[0] in _MARKS_AT_THE_BEGINNING else text


def _not_a_suggestion(line: str) -> str:
    return reference_to(line[0]) + line[1:] if _SUGGESTION.match(line) else line


def _indented(line: str, width: int) -> str:
    return " " * width + line if line else ""


def has_finding_lines(text: str) -> bool:
    """Tell whether a line begins as a finding does."""
    return _FINDING.search(text) is not None


def says_nothing_was_found(text: str) -> bool:
    """Tell whether a text says in words that there are no findings or no files."""
    return _NOTHING.match(text.strip(BLANKS)[:200]) is not None


def findings_in(text: str, first_line: int = 1) -> list[JsonObject]:
    """Return the findings that stand in a text as lines; text around them is passed over.

    Raises:
        UnexpectedContent: there is no such line and the text does not say that nothing was found, or a line has a
            priority that does not exist or no issue.
    """
    findings = [_finding(item) for item in list_items(text, _FINDING, first_line)]
    if not findings and text.strip(BLANKS) and not says_nothing_was_found(text):
        raise UnexpectedContent(f"line {first_line}", excerpt(text.strip(BLANKS)), f"lines such as {FINDING_LINE!r}")
    return findings


def _finding(item: Item) -> JsonObject:
    priority = (item.mark["framed"] or item.mark["bare"]).upper()
    if priority not in PRIORITIES:
        raise UnexpectedContent(f"line {item.line}", f"the priority {priority}", "P1, P2 or P3")
    body, suggestion = _suggestion_apart(item.lines)
    issue, location, rationale = map(_read, _fields_of(body))
    if not issue:
        raise UnexpectedContent(f"line {item.line}", "no issue", f"a line such as {FINDING_LINE!r}")
    finding: JsonObject = {"priority": priority, "location": location, "issue": issue, "rationale": rationale}
    return finding if suggestion is None else finding | {"suggestion": suggestion}


def _suggestion_apart(lines: list[str]) -> tuple[str, str | None]:
    for number, line in enumerate(lines[1:], 1):
        mark = _SUGGESTION.match(line)
        if mark is not None:
            suggestion = [line[mark.end() :], *(without_indent(further, 2) for further in lines[number + 1 :])]
            return "\n".join(lines[:number]), resolve_references("\n".join(suggestion))
    return "\n".join(lines), None


def _fields_of(body: str) -> tuple[str, str, str]:
    for separator in _SEPARATORS:
        parts = _parts(body, separator)
        if separator is _EM_DASH and len(parts) == 3:
            return _three(body, parts, 1)
        for index, (start, end) in enumerate(parts[1:], 1):
            if _is_place(body[start:end]):
                return _three(body, parts, index)
    parts = _parts(body, _ANY_DASH)
    if len(parts) >= 3:
        return _three(body, parts, 1)
    return body[: parts[0][1]], "", body[parts[1][0] :] if len(parts) == 2 else ""


def _parts(body: str, separator: re.Pattern[str]) -> list[tuple[int, int]]:
    cuts = [match.span() for match in islice(separator.finditer(body), _MAX_SEPARATORS)]
    return list(zip([0, *(end for _, end in cuts)], [*(start for start, _ in cuts), len(body)], strict=True))


def _three(body: str, parts: list[tuple[int, int]], location: int) -> tuple[str, str, str]:
    start, end = parts[location]
    rationale = body[parts[location + 1][0] :] if location + 1 < len(parts) else ""
    return body[: parts[location - 1][1]], body[start:end], rationale


def _is_place(part: str) -> bool:
    if len(part) > _MAX_LOCATION_CHARACTERS:
        return False
    words = part.split()
    return (
        bool(words)
        and _PLACE.fullmatch(words[0]) is not None
        and all(_PLACE.fullmatch(word) or _BESIDE_A_PLACE.fullmatch(word) for word in words[1:])
    )


def files_in(text: str) -> list[JsonObject]:
    """Return the files that stand in a text as lines, with a bullet or all without one."""
    if says_nothing_was_found(text) and not _EM_DASH.search(text):  # a file may be called none
        return []
    items = list(list_items(text, _BULLET)) or list(list_items(text, _NO_BULLET))
    return [file for item in items if (file := _file("\n".join(item.lines)))["path"]]


def _file(body: str) -> JsonObject:
    for separator in (*_SEPARATORS, _COLON):
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
