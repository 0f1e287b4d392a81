"""A survey of a text in one pass: every value that may be the answer, with its fence or tag.

A value inside another one is not listed. Fences and tags are searched only between values, so those inside a string
have no effect. Fences follow CommonMark 4.5: a closing fence is at least as long as its opening one and has no info
string. Models nest them, so a fence with an info string inside another one opens a new fence.

A value inside a broken container, or in the continuation of one, is a part of a truncated or damaged answer. Such a
part may match the schema, but it is not the answer.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Self

from ao_protocol.extraction.breaks import (
    MEMBER_AFTER_MEMBER,
    Breaks,
    Evidence,
    broke_behind_first_string,
    follows,
    judge_break,
)
from ao_protocol.extraction.strict_json import (
    BEGINS_CONTAINER,
    OPENING,
    SCALAR,
    NoJsonFound,
    Reason,
    Skim,
    end_of,
    skim_container,
)

MAX_CANDIDATES: Final = 50_000
"""The maximum number of values. Each costs memory; an answer with more of them is an attack or a data dump."""
MAX_BREAKS: Final = 100_000
"""The maximum number of broken containers. Each costs a step that no bulk operation can save."""

_ANSWER_TAGS: Final = frozenset(
    {"answer", "final", "final_answer", "final_output", "final_result", "json", "json_output", "output", "response"}
    | {"result", "structured_output", "structured_response"}
)
_THINKING_TAGS: Final = frozenset(
    {"analysis", "inner_monologue", "reasoning", "reflection", "scratchpad", "think", "thinking", "thought"}
    | {"thoughts"}
)
"""Tags of a model's reasoning. An unclosed one extends to the end, because the model gave no answer."""
_TOOL_TAGS: Final = frozenset(
    {"function_call", "function_calls", "function_result", "function_results", "invoke", "observation", "tool"}
    | {"tool_call", "tool_calls", "tool_output", "tool_response", "tool_result", "tool_results", "tool_use"}
)
"""Tags of tool calls and results. The names are unmistakable, so an unclosed one extends to the end, too."""
_QUOTED_TAGS: Final = frozenset(
    {"context", "document", "documents", "draft", "example", "examples", "input", "inputs", "instructions"}
    | {"output_format", "parameters", "prompt", "quote", "sample", "schema", "search_results", "source", "system"}
    | {"system_prompt", "template", "user", "user_input"}
)
"""Tags of quotations and illustrations. Some are names of HTML elements, so only a closed one counts."""
_KNOWN_TAGS: Final = _ANSWER_TAGS | _THINKING_TAGS | _TOOL_TAGS | _QUOTED_TAGS
_DOCUMENT_LANGUAGES: Final = frozenset(
    {"", "console", "html", "markdown", "md", "none", "output", "plain", "plaintext", "raw", "text", "txt", "xhtml"}
    | {"xml"}
)
"""Fence languages that do not exclude JSON. Tags in such a fence count as in the text itself."""


class FenceKind(IntEnum):
    """The content of a fence, by its info string. Of nested fences the least JSON-like one counts."""

    NONE = 0
    JSON = 1
    CODE = 2


@dataclass(slots=True)
class Region:
    """The text, a fence or a tag: its start, its parent and, once known, its meaning.

    `introduced_at` is the place where the sentence that introduces the content ends. A fence has an empty `tag`.
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """A span that may be the answer, or that breaks at its end, and its innermost region."""

    start: int
    end: int
    region: Region


@dataclass(slots=True)
class Candidates:
    """The spans of a text in order: complete values, values that break, and further findings."""

    values: list[Candidate] = field(default_factory=list)
    broken: list[Candidate] = field(default_factory=list)
    pieces_dropped: bool = False
    reason_of_break: Reason | None = None
    unfinished_at: int | None = None
    """The start of a value that never ended."""

    def add(self, candidate: Candidate, *, broken: bool = False) -> None:
        """Add a span.

        Raises:
            NoJsonFound: `TOO_MANY_VALUES`.
        """
        candidates = self.broken if broken else self.values
        if len(candidates) >= MAX_CANDIDATES:
            raise NoJsonFound(Reason.TOO_MANY_VALUES, f"more than {MAX_CANDIDATES}")
        candidates.append(candidate)

    def drop_behind(self, start: int) -> None:
        """Remove the spans after `start`, complete or broken: they are parts of a larger value."""
        for candidates in (self.values, self.broken):
            while candidates and candidates[-1].start > start:
                candidates.pop()
                self.pieces_dropped = True


def survey(text: str) -> Candidates:
    """Return the values of the text in order. Time is linear in the length of any text.

    Raises:
        NoJsonFound: `TOO_MANY_VALUES`: the text has too many values or broken containers.
    """
    return _Survey(text).run()


class _Survey:
    def __init__(self, text: str) -> None:
        self._text = text
        self._found = Candidates()
        self._regions = _Regions()
        self._breaks = Breaks(text)
        self._break_count = 0
        self._comments_may_end = True
        self._steps: dict[str, Callable[[int], int]] = {
            **dict.fromkeys("{[", self._at_opener),
            **dict.fromkeys("}]", self._at_closer),
            **dict.fromkeys("`~", self._at_fence),
            "<": self._at_angle,
            "◁": self._at_tag,
        }

    def run(self) -> Candidates:
        position = 0
        while (mark := _MARK.search(self._text, position)) is not None:
            position = self._steps[mark[0]](mark.start())
        self._leave(0)
        self._regions.settle()
        return self._found

    def _at_opener(self, at: int) -> int:
        text = self._text
        if _BRACKET_TAG.match(text, at) is not None:
            return self._at_tag(at)
        template = _TEMPLATE_BRACES.match(text, at)
        if template is not None:
            self._breaks.add("{" * template[0].count("{"), at, Evidence.PROSE)
            return template.end()
        if BEGINS_CONTAINER.match(text, at) is None:
            return self._note_break(at, Skim(end_of(OPENING, text, at), text[at]))
        skim = skim_container(text, at)
        if skim.still_open:
            self._break_count += 1
            if self._break_count > MAX_BREAKS:
                raise NoJsonFound(Reason.TOO_MANY_VALUES, f"more than {MAX_BREAKS} broken ones")
            return self._note_break(at, skim)
        if self._breaks.hold(at):
            self._found.pieces_dropped = True
        else:
            self._found.add(Candidate(at, skim.end, self._regions.innermost))
        return skim.end

    def _note_break(self, at: int, skim: Skim) -> int:
        text, end = self._text, skim.end
        only_a_string = broke_behind_first_string(text, at, skim)
        evidence = judge_break(text, at, skim, only_a_string)
        if evidence is not Evidence.PROSE:
            broken = Reason.TRUNCATED if _TEXT_ENDS.match(text, end) else Reason.INVALID_JSON
            self._found.reason_of_break = Reason.TOO_DEEP if skim.too_deep else broken
            if not self._breaks.inside_value and not self._breaks.hold(at):
                self._found.add(Candidate(at, end, self._regions.innermost), broken=True)
        self._breaks.add(skim.still_open, at, evidence)
        return at + 1 if only_a_string and end > at + 1 else end

    def _at_closer(self, at: int) -> int:
        bracket = "{" if self._text[at] == "}" else "["
        if self._breaks.knows(bracket):
            broken_since = self._breaks.close(bracket)
            if broken_since is not None:
                self._found.drop_behind(broken_since)
            return at + 1
        # A closing bracket without an opening one: the text begins inside a value, such as a continued answer.
        values = self._found.values
        while values and follows(MEMBER_AFTER_MEMBER, self._text, values[-1].start):
            self._found.drop_behind(values[-1].start - 1)
        return at + 1

    def _at_fence(self, at: int) -> int:
        """Open or close a fence, unless the marks are inline code. Only marks without an info string can close one.

        CommonMark requires fences at the start of a line. Models also begin them at the end of a line, and put the
        value on the same line.
        """
        text = self._text
        run = _FENCE_MARKS.match(text, at)
        if run is None:
            return end_of(_MARKS, text, at)
        end = end_of(_INFO, text, run.end())
        info = text[run.end() : end].strip()
        ends_line = end == len(text) or text[end] == "\n"
        is_bare = ends_line and not info
        open_marks = self._regions.fence_marks
        if is_bare and open_marks:
            if run[0].startswith(open_marks):
                self._leave_region("", at)
            return end
        if _begins_line(text, at):
            may_open = ends_line or (text[end] in "{[" and len(info.split()) <= 1)
        else:
            is_tagged_or_bare = _LANGUAGE_ONLY.match(text, run.end()) is not None
            may_open = is_tagged_or_bare and not _NO_OPENING.search(text, max(0, at - _LONGEST_INDENT), at)
        if not may_open:
            return end if is_bare else run.end()
        self._regions.open(at, marks=run[0], fence=_kind_of(info))
        return self._take_scalar(end)

    def _at_angle(self, at: int) -> int:
        text = self._text
        if text.startswith(_CDATA, at):
            return at + len(_CDATA)
        if text.startswith("<!--", at) and self._comments_may_end:
            end = text.find("-->", at)
            self._comments_may_end = end >= 0
            return end if end >= 0 else at + 4
        return self._at_tag(at)

    def _at_tag(self, at: int) -> int:
        """Open or close a known tag. Any other tag is skipped, so its attributes have no values."""
        tag = _TAG.match(self._text, at) or _BRACKET_TAG.match(self._text, at)
        if tag is None:
            return at + 1
        name, closes = tag["name"].rpartition(":")[2].lower().replace("-", "_"), bool(tag["closing"])
        in_code = self._regions.innermost.fence is FenceKind.CODE and not (closes and self._regions.has_open(name))
        if name not in _KNOWN_TAGS or tag[0].endswith("/>") or in_code:
            return tag.end()
        if not closes:
            self._regions.open(at, tag=name)
            return self._take_scalar(tag.end())
        if self._regions.has_open(name):
            self._leave_region(name, at)
        elif name in _THINKING_TAGS:
            # Some chat templates put the opening tag into the prompt, so the answer has only the closing tag.
            self._leave(0)
            self._found.drop_behind(-1)
            self._found.broken.clear()
            self._found.unfinished_at = None
            self._regions = _Regions()
        return tag.end()

    def _take_scalar(self, at: int) -> int:
        """Add the string, number or literal that is the only content of the region just opened."""
        match = _LONE_SCALAR.match(self._text, at)
        if match is None:
            return at
        self._found.add(Candidate(*match.span(1), self._regions.innermost))
        return match.end(1)

    def _leave_region(self, tag: str, at: int) -> None:
        self._leave(self._regions.close(tag, at))

    def _leave(self, region_start: int) -> None:
        unfinished = self._breaks.leave_region(region_start)
        if unfinished is not None:
            self._found.drop_behind(unfinished)
            self._found.unfinished_at = unfinished


class _Regions:
    """The regions of a text. A region ends at the latest with its parent."""

    def __init__(self) -> None:
        self._all: list[Region] = []
        self._open = [Region(0)]
        self._levels: dict[str, list[int]] = {}
        """The indices in `_open` of the tags of each name, and of fences, whose name is empty."""

    @property
    def innermost(self) -> Region:
        return self._open[-1]

    @property
    def fence_marks(self) -> str:
        """The marks of the innermost open fence; empty without one."""
        return self._open[self._levels[""][-1]].marks if self.has_open("") else ""

    def has_open(self, tag: str) -> bool:
        return bool(self._levels.get(tag))

    def open(self, start: int, *, tag: str = "", marks: str = "", fence: FenceKind = FenceKind.NONE) -> None:
        outer = self.innermost
        introduced_at = start if outer.introduced_at is None and marks else outer.introduced_at
        region = Region(start, outer, tag, marks, max(outer.fence, fence), introduced_at)
        self._levels.setdefault(tag, []).append(len(self._open))
        self._all.append(region)
        self._open.append(region)

    def close(self, tag: str, end: int) -> int:
        """Close the innermost region of that name, and the regions open in it, at `end`; return its start."""
        level = self._levels[tag][-1]
        for region in reversed(self._open[level:]):
            region.end = end
            self._levels[region.tag].pop()
        closed = self._open[level]
        closed.closed = True
        del self._open[level:]
        return closed.start

    def settle(self) -> None:
        """End the text: determine for every region whether it is excluded or in an answer."""
        for region in self._all:
            outer = region.parent or region
            always_excluded = region.tag in _THINKING_TAGS or region.tag in _TOOL_TAGS
            region.excluded = outer.excluded or always_excluded or (region.closed and region.tag in _QUOTED_TAGS)
            region.in_answer = outer.in_answer or (region.closed and region.tag in _ANSWER_TAGS)


def _begins_line(text: str, at: int) -> bool:
    start = max(0, at - _LONGEST_INDENT)
    line = text.rfind("\n", start, at)
    return (line >= 0 or start == 0) and _LINE_BEGINNING.fullmatch(text, line + 1, at) is not None


def _kind_of(info: str) -> FenceKind:
    language = info.lower()
    is_json = "json" in language or language.partition(" ")[0] in _DOCUMENT_LANGUAGES
    return FenceKind.JSON if is_json else FenceKind.CODE


_MARK: Final = re.compile(r"[\[\]{}<`~◁]")
_TEMPLATE_BRACES: Final = re.compile(r"(?>(?:\{\s*+(?=\{))+)")
_TEXT_ENDS: Final = re.compile(r"(?:\\u?)?[\w.+-]*+\s*+\Z")
_CDATA: Final = "<![CDATA["

_LONGEST_INDENT: Final = 80
_MARKS: Final = re.compile(r"`++|~++")
_FENCE_MARKS: Final = re.compile(r"`{3,}+|~{3,}+")
_INFO: Final = re.compile(r"[^\n`{\[]{0,200}+")
_LINE_BEGINNING: Final = re.compile(r"\s*+(?>(?:>\s*+)*)(?>(?:(?:[-*+]|[0-9]{1,3}[.)])\s++)?)")
_LANGUAGE_ONLY: Final = re.compile(r"(?>(?:[A-Za-z][\w+#-]*+)?)[ \t\r]*+(?:\n|\Z)")
_NO_OPENING: Final = re.compile(r"[}\]]\s*\Z|```[^\n]*\Z")
_ATTRIBUTE: Final = r"""\s++[\w:.-]++(?>(?:\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'|[^\s"'<>{}\[\]]++))?)"""
_TAG: Final = re.compile(rf"<(?P<closing>/?)(?P<name>[A-Za-z][\w:.-]*+)(?>(?:{_ATTRIBUTE})*)\s*+/?+>")
_BRACKET_TAG: Final = re.compile(r"[◁\[](?P<closing>/?)(?P<name>think|THINK)[▷\]]")
_LONE_SCALAR: Final = re.compile(rf"\s*+({SCALAR})\s*+(?=`{{3}}|~{{3}}|</|◁/|\Z)")
