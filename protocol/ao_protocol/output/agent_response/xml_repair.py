"""Read what a model wrote as if XML had no special characters: `a && b`, `x < y`, `List<String>`, `a[b[0]]>1`.

Only what cannot be markup becomes text: an `&` that begins no reference, a `<` that begins no tag of the format, a
`]]>` that ends no CDATA section. No other character is touched, so a text either means what it says or stays refused.

- What may be a tag stays one: a tag of the format wherever it stands; inside `<agent_specific>`, and in a newer minor
  version, whose elements nobody here knows, whatever looks like a tag; between elements, where no text may stand.
- `&name;` stays a reference, also to an entity that does not exist.
- A text with a declaration or a processing instruction is not repaired at all, nor is one whose tags do not pair.

What comes out goes through the same strict reader as everything else.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ao_protocol.output.agent_response.model import CURRENT_VERSION, is_newer_minor
from ao_protocol.output.agent_response.notes import MAX_NOTES, Notes, RemarkKind

MAX_REPAIRS: Final = 100_000
MAX_TAGS: Final = 400_000
"""Twice the elements that are read, see `xml_document`."""

_TEXTS: Final = frozenset({"summary", "issue", "rationale", "suggestion", "file", "answer", "error"})
_LISTS_OF_LINES: Final = frozenset({"findings", "files"})
_PARTS: Final = frozenset({"agent_response", "finding", "results", "agent_specific"})
_NAMES: Final = "|".join(sorted(_TEXTS | _LISTS_OF_LINES | _PARTS, key=len, reverse=True))
_OWN: Final = "agent_specific"
_MAY_HOLD_TEXT: Final = _TEXTS | _LISTS_OF_LINES

_LONE_AMPERSAND: Final = r"&(?!#[0-9]++;|#x[0-9A-Fa-f]++;|(?:[\w:.-]|[^\x00-\x7f])++;)"
_MARK: Final = re.compile(
    rf"(?P<whole><!--.*?-->|<!\[CDATA\[.*?\]\]>)|<(?P<slash>/?)(?P<name>{_NAMES})(?=[\s/>])|<|{_LONE_AMPERSAND}|\]\]>",
    re.DOTALL,
)
_REST_OF_START_TAG: Final = re.compile(
    r"""(?P<attributes>(?:\s+[\w:.-]+\s*=\s*(?:"[^"]*"|'[^']*'))*+)\s*(?P<slash>/?)>"""
)
_REST_OF_END_TAG: Final = re.compile(r"\s*>")
_IN_ATTRIBUTES: Final = re.compile(rf"<|{_LONE_AMPERSAND}")
_MARKUP: Final = re.compile(rf"<(?:[!?]|/?(?:{_NAMES})[\s/>])")
_LIKE_A_TAG: Final = re.compile(r"</?(?:[A-Za-z_:]|[^\x00-\x7f])")
_ATTRIBUTE: Final = re.compile(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_LONGEST_RUN: Final = 8
_WRITTEN: Final = {"<": "&lt;", "&": "&amp;", "]]>": "]]&gt;"}


@dataclass(frozen=True, slots=True)
class RepairedXml:
    """A text, what was made text in it, each with its position in the original, and whether all of it is clear.

    Where something is not clear, only what stood before it was repaired, and the text serves to see what is wrong.
    """

    text: str
    repairs: tuple[tuple[int, str], ...]
    is_clear: bool


def repaired_xml(text: str, start: int) -> RepairedXml | None:
    """Return the text with the response element at `start` repaired, or None where there is nothing to repair.

    Lines stay where they are. Time is linear in the text.
    """
    repair = _Repair(text)
    is_clear = repair.walk(start)
    if not repair.found:
        return None
    pieces = [text[:start]]
    position = start
    for at, mark in repair.found:
        pieces += text[position:at], _WRITTEN[mark]
        position = at + len(mark)
    return RepairedXml("".join([*pieces, text[position:]]), tuple(repair.found), is_clear)


def remark_repairs(text: str, repaired: RepairedXml, notes: Notes) -> None:
    """Remark each repair with its line and column, as far as remarks go; marks that touch are one repair."""
    line, line_start, told = 1, 0, 0
    for at, marks in _runs(repaired.repairs):
        told += 1
        if told <= MAX_NOTES:
            line += text.count("\n", line_start, at)
            line_start = text.rfind("\n", 0, at) + 1
            written = "".join(_WRITTEN[mark] for mark in marks)
            place = f"line {line}, column {at - line_start + 1}"
            notes.remark(RemarkKind.REPAIRED, place, f"{''.join(marks)!r} is read as text; write it {written}")
    if told > MAX_NOTES:
        notes.remark(RemarkKind.REPAIRED, "the text", "more such marks", told - MAX_NOTES)


def _runs(repairs: tuple[tuple[int, str], ...]) -> Iterator[tuple[int, list[str]]]:
    begin, marks, end = 0, list[str](), -1
    for at, mark in repairs:
        if at != end and marks:
            yield begin, marks
        if at != end or len(marks) >= _LONGEST_RUN:
            begin, marks = at, []
        marks.append(mark)
        end = at + len(mark)
    yield begin, marks


class _Repair:
    """Goes through an element from mark to mark."""

    def __init__(self, text: str) -> None:
        self.found: list[tuple[int, str]] = []
        self.position = 0
        self._text = text
        self._open: list[str] = []
        self._own_depth = 0
        self._is_current = True
        self._tags = 0

    def walk(self, start: int) -> bool:
        """Tell whether the element ends and everything in it is clear."""
        self.position = start
        while len(self.found) <= MAX_REPAIRS and self._tags <= MAX_TAGS:
            mark = _MARK.search(self._text, self.position)
            if mark is None:
                return False
            self.position = mark.end()
            if mark["name"]:
                is_clear = self._end_tag(mark["name"]) if mark["slash"] else self._start_tag(mark["name"])
            else:
                is_clear = bool(mark["whole"]) or self._text_mark(mark)
            if not is_clear or not self._open:
                return is_clear
        return False

    def _start_tag(self, name: str) -> bool:
        self._tags += 1
        rest = _REST_OF_START_TAG.match(self._text, self.position)
        if rest is None or not self._repair_attributes(*rest.span("attributes")):
            return False
        if not self._open:
            given = {name: double or single for name, double, single in _ATTRIBUTE.findall(rest["attributes"])}
            self._is_current = not is_newer_minor(given.get("version", CURRENT_VERSION))
        self.position = rest.end()
        if not rest["slash"]:
            self._open.append(name)
            self._own_depth += name == _OWN
        return True

    def _end_tag(self, name: str) -> bool:
        rest = _REST_OF_END_TAG.match(self._text, self.position)
        if rest is None or not self._open or self._open.pop() != name:
            return False
        self._own_depth -= name == _OWN
        self.position = rest.end()
        return True

    def _repair_attributes(self, start: int, end: int) -> bool:
        for mark in _IN_ATTRIBUTES.finditer(self._text, start, end):
            if _MARKUP.match(self._text, mark.start()):
                return False
            self.found.append((mark.start(), mark[0]))
        return True

    def _text_mark(self, mark: re.Match[str]) -> bool:
        if mark[0] == "<":
            if self._text[mark.end() : mark.end() + 1] in {"!", "?"}:
                return False
            if _LIKE_A_TAG.match(self._text, mark.start()) and not self._is_text():
                self._tags += 1
                return True
        self.found.append((mark.start(), mark[0]))
        return True

    def _is_text(self) -> bool:
        """Tell whether what looks like a tag that nobody knows can only be text here."""
        return self._is_current and not self._own_depth and self._open[-1] in _MAY_HOLD_TEXT
