"""The fences and tags of an answer: what stands at a place in the text, and which regions that place is in.

Fences follow CommonMark 4.5: a closing fence is at least as long as its opening one and carries no info
string. Models nest them, so a fence with an info string inside another one opens a fence of its own.
What a region means is known only when it has been closed, or the text has ended.
"""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self

from ao_protocol.extraction.grammar import SCALAR, end_of

ANSWER_TAGS: Final = frozenset(
    {"answer", "final", "final_answer", "final_output", "final_result", "json", "json_output", "output", "response"}
    | {"result", "structured_output", "structured_response"}
)
THINKING_TAGS: Final = frozenset(
    {"analysis", "inner_monologue", "reasoning", "reflection", "scratchpad", "think", "thinking", "thought"}
    | {"thoughts"}
)
"""A model's own reasoning. One that is not closed reaches to the end: the model never came to the answer."""
TOOL_TAGS: Final = frozenset(
    {"function_call", "function_calls", "function_result", "function_results", "invoke", "observation", "tool"}
    | {"tool_call", "tool_calls", "tool_output", "tool_response", "tool_result", "tool_results", "tool_use"}
)
"""Words to or from a tool. The names are unmistakable, so one that is not closed reaches to the end too."""
QUOTED_TAGS: Final = frozenset(
    {"context", "document", "documents", "draft", "example", "examples", "input", "inputs", "instructions"}
    | {"output_format", "parameters", "prompt", "quote", "sample", "schema", "search_results", "source", "system"}
    | {"system_prompt", "template", "user", "user_input"}
)
"""Other people's words and illustrations. Some are words of HTML, so only a closed one counts."""
_KNOWN_TAGS: Final = ANSWER_TAGS | THINKING_TAGS | TOOL_TAGS | QUOTED_TAGS
_DOCUMENT_LANGUAGES: Final = frozenset(
    {"", "console", "html", "markdown", "md", "none", "output", "plain", "plaintext", "raw", "text", "txt", "xhtml"}
    | {"xml"}
)
"""Fence languages that say nothing about JSON, in which tags are looked for as in the text itself."""


class FenceKind(IntEnum):
    """What the info string of the fence says about its content; of nested fences the least JSON-like counts."""

    NONE = 0
    JSON = 1
    CODE = 2


@dataclass(slots=True)
class Region:
    """The text, a fence or a tag: where it was opened, what it is in, and, once that is known, what that means.

    `introduced_at` is the place where the sentence that introduces its content ends.
    """

    start: int
    parent: Self | None = None
    tag: str = ""
    marks: str = ""
    fence: FenceKind = FenceKind.NONE
    introduced_at: int | None = None
    end: int | None = None
    closed: bool = False
    in_answer: bool = False
    excluded: bool = False


class Regions:
    """The regions of a text. What is opened in a region ends with it."""

    def __init__(self) -> None:
        self._all: list[Region] = []
        self._open = [Region(0)]
        self._fences: list[int] = []
        self._tags: dict[str, list[int]] = {}

    @property
    def innermost(self) -> Region:
        """Return the region that stands open here."""
        return self._open[-1]

    @property
    def fence_marks(self) -> str:
        """Return the marks of the innermost open fence, or nothing."""
        return self._open[self._fences[-1]].marks if self._fences else ""

    def has_open(self, tag: str) -> bool:
        """Tell whether a tag of that name stands open here."""
        return bool(self._tags.get(tag))

    def open_fence(self, start: int, marks: str, kind: FenceKind) -> None:
        """Open a fence whose marks begin at `start`."""
        outer = self.innermost
        introduced_at = start if outer.introduced_at is None else outer.introduced_at
        self._fences.append(len(self._open))
        self._add(Region(start, outer, "", marks, max(outer.fence, kind), introduced_at))

    def open_tag(self, start: int, tag: str) -> None:
        """Open a tag that begins at `start`."""
        outer = self.innermost
        self._tags.setdefault(tag, []).append(len(self._open))
        self._add(Region(start, outer, tag, "", outer.fence, outer.introduced_at))

    def close_fence(self, end: int) -> int:
        """Close the innermost fence at `end`; return where it began."""
        return self._close_from(self._fences[-1], end)

    def close_tag(self, tag: str, end: int) -> int | None:
        """Close the innermost tag of that name at `end`; return where it began, or None if there is none."""
        indices = self._tags.get(tag)
        return self._close_from(indices[-1], end) if indices else None

    def settle(self) -> None:
        """End the text: work out for every region what is known about the values in it."""
        for region in self._all:
            outer = region.parent
            region.in_answer = region.closed and region.tag in ANSWER_TAGS
            region.excluded = region.tag in THINKING_TAGS or region.tag in TOOL_TAGS
            region.excluded |= region.closed and region.tag in QUOTED_TAGS
            if outer is not None:
                region.in_answer |= outer.in_answer
                region.excluded |= outer.excluded

    def _add(self, region: Region) -> None:
        self._all.append(region)
        self._open.append(region)

    def _close_from(self, index: int, end: int) -> int:
        for region in reversed(self._open[index:]):
            region.end = end
            if region.tag:
                self._tags[region.tag].pop()
            else:
                self._fences.pop()
        closed = self._open[index]
        closed.closed = True
        del self._open[index:]
        return closed.start


@dataclass(frozen=True, slots=True)
class FenceMark:
    """Fence marks: what they may do, and where to go on. Only a bare mark may close a fence."""

    marks: str
    end: int
    kind: FenceKind
    bare: bool
    may_open: bool


@dataclass(frozen=True, slots=True)
class TagMark:
    """A tag, and the place behind it. The name is empty where it is none that says anything here."""

    name: str
    end: int
    closing: bool


def read_fence(text: str, at: int) -> FenceMark | None:
    """Return the fence mark at `at`, or None where the marks belong to inline code.

    CommonMark wants fences at the start of a line; models also begin them at the end of one, and put the
    value on the same line.
    """
    run = _FENCE_MARKS.match(text, at)
    if run is None:
        return None
    end = end_of(_INFO, text, run.end())
    info = text[run.end() : end].strip()
    ends_line = end == len(text) or text[end] == "\n"
    if _begins_line(text, at):
        may_open = ends_line or (text[end] in "{[" and len(info.split()) <= 1)
    else:
        is_tagged_or_bare = _LANGUAGE_ONLY.match(text, run.end()) is not None
        may_open = is_tagged_or_bare and not _NO_OPENING.search(text, max(0, at - _LONGEST_INDENT), at)
    bare = ends_line and not info
    if not may_open and not bare:
        return None
    return FenceMark(run[0], end, _kind_of(info), bare, may_open)


def read_tag(text: str, at: int) -> TagMark | None:
    """Return the tag at `at`; of every kind, since what stands in its attributes is no value."""
    match = _TAG.match(text, at) or _BRACKET_TAG.match(text, at)
    if match is None:
        return None
    name = match["name"].rpartition(":")[2].lower().replace("-", "_")
    known = name in _KNOWN_TAGS and not match[0].endswith("/>")
    return TagMark(name if known else "", match.end(), closing=bool(match["closing"]))


def read_scalar(text: str, at: int) -> tuple[int, int] | None:
    """Return the span of the scalar that is all that a region beginning at `at` holds."""
    match = _LONE_SCALAR.match(text, at)
    return match.span(1) if match is not None else None


def _begins_line(text: str, at: int) -> bool:
    start = max(0, at - _LONGEST_INDENT)
    line = text.rfind("\n", start, at)
    return (line >= 0 or start == 0) and _LINE_BEGINNING.fullmatch(text, line + 1, at) is not None


def _kind_of(info: str) -> FenceKind:
    language = info.lower()
    is_json = "json" in language or language.partition(" ")[0] in _DOCUMENT_LANGUAGES
    return FenceKind.JSON if is_json else FenceKind.CODE


_LONGEST_INDENT: Final = 80
_FENCE_MARKS: Final = re.compile(r"`{3,}+|~{3,}+")
_INFO: Final = re.compile(r"[^\n`{\[]{0,200}+")
_LINE_BEGINNING: Final = re.compile(r"\s*+(?:>\s*+)*+(?:(?:[-*+]|[0-9]{1,3}[.)])\s++)?+")
_LANGUAGE_ONLY: Final = re.compile(r"(?:[A-Za-z][\w+#-]*+)?+[ \t\r]*+(?:\n|\Z)")
_NO_OPENING: Final = re.compile(r"[}\]]\s*\Z|```[^\n]*\Z")
_ATTRIBUTE: Final = r"""\s++[\w:.-]++(?:\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'|[^\s"'<>{}\[\]]++))?+"""
_TAG: Final = re.compile(rf"<(?P<closing>/?)(?P<name>[A-Za-z][\w:.-]*+)(?:{_ATTRIBUTE})*+\s*+/?+>")
_BRACKET_TAG: Final = re.compile(r"[◁\[](?P<closing>/?)(?P<name>think|THINK)[▷\]]")
_LONE_SCALAR: Final = re.compile(rf"\s*+({SCALAR})\s*+(?=`{{3}}|~{{3}}|</|◁/|\Z)")
