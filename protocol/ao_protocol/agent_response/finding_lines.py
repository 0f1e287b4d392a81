"""Findings and files as lines: `- [P1] issue — file:line — rationale` and `- path — relevance`, written and read.

The reader returns exactly what was written: an em dash that is alone in a field, and any other text that would be read
as a mark, is written as a character reference such as `&#8212;`. Further lines of an item are indented.
"""

import re
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Final, NamedTuple

from ao_protocol.agent_response.model import (
    BLANKS,
    PRIORITIES,
    Finding,
    Notes,
    RelevantFile,
    UnexpectedContent,
    excerpt,
)
from ao_protocol.json_words import shown
from ao_protocol.wire import JsonObject

_FORMAT: Final = "- [P1] issue — file:line — rationale"
_BULLET: Final = r"(?:[-*+•]|[0-9]{1,3}[.)])[ \t]+"
_FINDING: Final = re.compile(
    rf"^[ \t]*(?:{_BULLET})?(?:\*\*)?\[(P[0-9]{{1,2}})\](?:\*\*)?:?[ \t]*", re.IGNORECASE | re.MULTILINE
)
_FILE: Final = re.compile(rf"[ \t]*{_BULLET}")
_FILE_WITHOUT_BULLET: Final = re.compile(r"[ \t]*(?=[^ \t])(?!```)")
_SUGGESTION: Final = re.compile(r"(?:[-*+•][ \t]+)?(?:\*\*)?suggestion(?:\*\*)?:(?:\*\*)?[ \t]*", re.IGNORECASE)
_NOTHING: Final = re.compile(
    r"(?:[-*][ \t]+)?(?:none|nothing|n/a|no (?:findings|issues|files)(?: found)?)\.?", re.IGNORECASE
)
# Each pattern begins with the mark, because that is the fastest search.
_EM_DASH: Final = re.compile(r"—(?![^ \t\n])(?<![^ \t\n]—)")
_DASHES: Final = (
    _EM_DASH,
    re.compile(r"–(?![^ \t\n])(?<![^ \t\n]–)"),
    re.compile(r"--?(?=[ \t])(?:(?<=[^ \t\n][ \t]-)|(?<=[^ \t\n][ \t]--))"),
)
"""The dashes between fields. A hyphen at the beginning of a line is the bullet of a list inside the item."""
_MAX_DASHES: Final = 32
_PLACE: Final = re.compile(r"\S+:[0-9]\S*")
_FRAMED: Final = re.compile(r"(\*\*|`)((?:(?!\1).)+)\1", re.DOTALL)
_REFERENCE: Final = re.compile(r"&#([0-9]{1,7});")
_MARKS_AT_THE_BEGINNING: Final = "*`:–—-"


def reference_to(character: str) -> str:
    """Return the character reference for a character."""
    return f"&#{ord(character)};"


def without_references(text: str) -> str:
    """Return a text in which nothing reads as a reference. Call this before references are inserted."""
    return _REFERENCE.sub(r"&#38;#\1;", text)


def resolve_references(text: str) -> str:
    """Return a text with characters for references. A reference to no character is unchanged."""

    def character(match: re.Match[str]) -> str:
        code = int(match[1])
        return chr(code) if 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else match[0]

    return _REFERENCE.sub(character, text)


def finding_lines(finding: Finding) -> Iterator[str]:
    """Yield the lines of one finding. `findings_in` reads them back exactly."""
    first, *others = " — ".join(map(_written, (finding.issue, finding.location, finding.rationale))).split("\n")
    yield f"- [{finding.priority}] {first}"
    for line in others:
        yield _indented(reference_to(line[0]) + line[1:] if _SUGGESTION.match(line) else line, 2)
    if finding.suggestion is not None:
        first, *others = without_references(finding.suggestion).split("\n")
        yield f"  - Suggestion: {first}"
        yield from (_indented(line, 4) for line in others)


def file_lines(file: RelevantFile) -> Iterator[str]:
    """Yield the lines of one file. `files_in` reads them back exactly."""
    first, *others = f"{_written(file.path)} — {without_references(file.relevance)}".split("\n")
    yield f"- {first}"
    yield from (_indented(line, 2) for line in others)


def _written(text: str) -> str:
    text = _EM_DASH.sub(reference_to("—"), without_references(text))
    return reference_to(text[0]) + text[1:] if text and text[0] in _MARKS_AT_THE_BEGINNING else text


def _indented(line: str, width: int) -> str:
    return " " * width + line if line else ""


def has_finding_lines(text: str) -> bool:
    """Return whether any line begins like a finding."""
    return _FINDING.search(text) is not None


def says_nothing(text: str) -> bool:
    """Return whether a text only states, in a few words, that it has no findings or no files."""
    return _NOTHING.fullmatch(text.strip(BLANKS)) is not None


def findings_in(text: str, notes: Notes, first_line: int = 1) -> list[JsonObject]:
    """Return the findings that a text lists as lines. Other text is ignored.

    A problem is noted if the text has no such line and does not state that it has no findings, and for each line with
    an unknown priority or without an issue.
    """
    findings = [_finding(item, notes) for item in _items(text, _FINDING, first_line)]
    if not findings and text.strip(BLANKS) and not says_nothing(text):
        found = excerpt(text.strip(BLANKS))
        notes.refuse(UnexpectedContent(f"line {first_line}", found, f"lines such as {shown(_FORMAT)}"))
    return findings


def _finding(item: "_Item", notes: Notes) -> JsonObject:
    priority = item.mark[1].upper()
    if priority not in PRIORITIES:
        notes.refuse(UnexpectedContent(f"line {item.line}", f"the priority {priority}", "P1, P2 or P3"))
    at = next((number for number, line in enumerate(item.lines) if number and _SUGGESTION.match(line)), None)
    issue, location, rationale = map(_read, _fields("\n".join(item.lines[:at])))
    if not issue:
        notes.refuse(UnexpectedContent(f"line {item.line}", "no issue", f"a line such as {shown(_FORMAT)}"))
    finding: JsonObject = {"priority": priority, "location": location, "issue": issue, "rationale": rationale}
    if at is not None:
        first, *others = item.lines[at:]
        lines = [_SUGGESTION.sub("", first, count=1), *(_dedented(line, 2) for line in others)]
        finding["suggestion"] = resolve_references("\n".join(lines))
    return finding


def _fields(body: str) -> tuple[str, str, str]:
    """Return issue, location and rationale: three parts between em dashes by position; else the part `file:line`."""
    for dash in _DASHES:
        marks = [match.span() for match in islice(dash.finditer(body), _MAX_DASHES)]
        is_by_position = dash is _EM_DASH and len(marks) == 2
        for (start, end), (next_start, next_end) in pairwise([*marks, (len(body), len(body))]):
            if is_by_position or _PLACE.fullmatch(body[end:next_start].strip(BLANKS)):
                return body[:start], body[end:next_start], body[next_end:]
    first = _EM_DASH.search(body)
    return (body[: first.start()], "", body[first.end() :]) if first else (body, "", "")


def files_in(text: str) -> list[JsonObject]:
    """Return the files that a text lists as lines: those with a bullet, or all lines if none has a bullet."""
    if says_nothing(text):
        return []
    files: list[JsonObject] = []
    for item in list(_items(text, _FILE)) or list(_items(text, _FILE_WITHOUT_BULLET)):
        body = "\n".join(item.lines)
        start, end = next((mark.span() for dash in _DASHES if (mark := dash.search(body))), (len(body), len(body)))
        if path := _read(body[:start]):
            files.append({"path": path, "relevance": resolve_references(body[end:].strip(BLANKS))})
    return files


def _read(field: str) -> str:
    field = field.strip(BLANKS)
    framed = _FRAMED.fullmatch(field)
    return resolve_references(framed[2] if framed else field)


class _Item(NamedTuple):
    """An item of a list: the number of its first line, the match of its mark, and its lines without indentation."""

    line: int
    mark: re.Match[str]
    lines: list[str]


def _items(text: str, mark: re.Pattern[str], first_line: int = 1) -> Iterator[_Item]:
    """Yield the items whose first line the mark matches. Text before and between them is ignored.

    A line that is indented deeper than the item belongs to it, even after blank lines. Any other line belongs to it
    only if no blank line and no fence is between them.
    """
    item: _Item | None = None
    indent, has_ended = 0, False
    for number, line in enumerate(text.split("\n"), first_line):
        width = len(line) - len(line.lstrip(BLANKS))
        found = mark.match(line) if item is None or width <= indent else None
        if found is not None:
            if item is not None:
                yield item
            item, indent, has_ended = _Item(number, found, [line[found.end() :]]), width, False
        elif item is not None and not has_ended:
            follows_blank = not item.lines[-1].strip(BLANKS)
            has_ended = width <= indent and width < len(line) and (follows_blank or line.startswith("```", width))
            if not has_ended:
                item.lines.append(_dedented(line, indent + 2))
    if item is not None:
        yield item


def _dedented(line: str, width: int) -> str:
    return line[min(width, len(line) - len(line.lstrip(" "))) :]
