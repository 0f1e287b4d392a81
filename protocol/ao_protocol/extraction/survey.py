"""Go over the text once and note every value that may be the answer, with the fence or tag it stands in.

A value inside another one is never noted. Fences and tags are looked for only between values, so those that stand in
a string are invisible. Fences follow CommonMark 4.5: a closing fence is at least as long as its opening one and
carries no info string. Models nest them, so a fence with an info string inside another one opens a fence of its own.

What stands inside a broken container, or goes on behind it, is a piece of a truncated or damaged answer. A piece may
well match the schema. It must not pass for the answer.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import groupby
from typing import Final, Self

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

MAX_CANDIDATES: Final = 20_000
"""Each value found costs memory; an answer with more of them is an attack or a data dump."""
MAX_BREAKS: Final = 100_000
"""Each place where a container breaks costs a step that no bulk operation can save."""

_ANSWER_TAGS: Final = frozenset(
    {"answer", "final", "final_answer", "final_output", "final_result", "json", "json_output", "output", "response"}
    | {"result", "structured_output", "structured_response"}
)
_THINKING_TAGS: Final = frozenset(
    {"analysis", "inner_monologue", "reasoning", "reflection", "scratchpad", "think", "thinking", "thought"}
    | {"thoughts"}
)
"""A model's own reasoning. One that is not closed reaches to the end: the model never came to the answer."""
_TOOL_TAGS: Final = frozenset(
    {"function_call", "function_calls", "function_result", "function_results", "invoke", "observation", "tool"}
    | {"tool_call", "tool_calls", "tool_output", "tool_response", "tool_result", "tool_results", "tool_use"}
)
"""Words to or from a tool. The names are unmistakable, so one that is not closed reaches to the end too."""
_QUOTED_TAGS: Final = frozenset(
    {"context", "document", "documents", "draft", "example", "examples", "input", "inputs", "instructions"}
    | {"output_format", "parameters", "prompt", "quote", "sample", "schema", "search_results", "source", "system"}
    | {"system_prompt", "template", "user", "user_input"}
)
"""Other people's words and illustrations. Some are words of HTML, so only a closed one counts."""
_KNOWN_TAGS: Final = _ANSWER_TAGS | _THINKING_TAGS | _TOOL_TAGS | _QUOTED_TAGS
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

    `introduced_at` is the place where the sentence that introduces its content ends. A fence has no tag.
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
    """A span that may be the answer, or breaks at its end, and the innermost region it stands in."""

    start: int
    end: int
    region: Region


@dataclass(slots=True)
class Candidates:
    """Spans in the order of the text: complete values, and where values begin that break; and what was seen besides."""

    values: list[Candidate] = field(default_factory=list)
    broken: list[Candidate] = field(default_factory=list)
    pieces_dropped: bool = False
    reason_of_break: Reason | None = None
    unfinished_at: int | None = None
    """Where a value began that never ended."""

    def add(self, candidate: Candidate, *, broken: bool = False) -> None:
        """Note a span, or raise `NoJsonFound` where there are too many."""
        candidates = self.broken if broken else self.values
        if len(candidates) >= MAX_CANDIDATES:
            raise NoJsonFound(Reason.TOO_MANY_VALUES, f"more than {MAX_CANDIDATES}")
        candidates.append(candidate)

    def drop_behind(self, start: int) -> None:
        """Take back what stands behind `start`, complete or broken: it is a piece of something larger."""
        for candidates in (self.values, self.broken):
            while candidates and candidates[-1].start > start:
                candidates.pop()
                self.pieces_dropped = True


def survey(text: str) -> Candidates:
    """Return the values of the text in their order. Linear in the length of the text, whatever it holds.

    Raises:
        NoJsonFound: `TOO_MANY_VALUES`.
    """
    return _Survey(text).run()


class _Survey:
    def __init__(self, text: str) -> None:
        self._text = text
        self._found = Candidates()
        self._regions = _Regions()
        self._breaks = _Breaks(text)
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
            self._breaks.add("{" * template[0].count("{"), at, _Evidence.PROSE)
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
        only_a_string = _broke_behind_first_string(text, at, skim)
        evidence = _judge_break(text, at, skim, only_a_string)
        if evidence is not _Evidence.PROSE:
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
        # A closer without an opener: the text begins inside a value, as when an answer is continued.
        values = self._found.values
        while values and _follows(_MEMBER_AFTER_MEMBER, self._text, values[-1].start):
            self._found.drop_behind(values[-1].start - 1)
        return at + 1

    def _at_fence(self, at: int) -> int:
        """Open or close a fence, unless the marks belong to inline code. Only a bare mark may close one.

        CommonMark wants fences at the start of a line; models also begin them at the end of one, and put the
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
        """Open or close a tag. One of any other name is passed over: what stands in its attributes is no value."""
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
            # Some chat templates put the opening tag into the prompt, so that only its end is in the answer.
            self._leave(0)
            self._found.drop_behind(-1)
            self._found.broken.clear()
            self._found.unfinished_at = None
            self._regions = _Regions()
        return tag.end()

    def _take_scalar(self, at: int) -> int:
        """Take the string, number or literal that is all that the region just opened holds."""
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
    """The regions of a text. What is opened in a region ends with it."""

    def __init__(self) -> None:
        self._all: list[Region] = []
        self._open = [Region(0)]
        self._levels: dict[str, list[int]] = {}
        """Where in `_open` the tags of each name stand, and the fences, whose name is empty."""

    @property
    def innermost(self) -> Region:
        return self._open[-1]

    @property
    def fence_marks(self) -> str:
        """Return the marks of the innermost open fence, or nothing."""
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
        """Close the innermost region of that name at `end`, and what stands open in it; return where it began."""
        level = self._levels[tag][-1]
        for region in reversed(self._open[level:]):
            region.end = end
            self._levels[region.tag].pop()
        closed = self._open[level]
        closed.closed = True
        del self._open[level:]
        return closed.start

    def settle(self) -> None:
        """End the text: work out for every region what is known about the values in it."""
        for region in self._all:
            outer = region.parent or region
            always_excluded = region.tag in _THINKING_TAGS or region.tag in _TOOL_TAGS
            region.excluded = outer.excluded or always_excluded or (region.closed and region.tag in _QUOTED_TAGS)
            region.in_answer = outer.in_answer or (region.closed and region.tag in _ANSWER_TAGS)


class _Evidence(IntEnum):
    """How sure it is that a broken container was meant to be JSON."""

    PROSE = 0
    """A placeholder, a wiki link, CSS: nothing behind the bracket looks like JSON."""
    LIKELY = 1
    """A member, or what a lenient reader would take for one, comes right behind it."""
    CERTAIN = 2
    """A whole string stood in it, or it was nested beyond the cap."""


def _judge_break(text: str, start: int, skim: Skim, only_a_string: bool) -> _Evidence:
    """Judge the container from `start` that broke."""
    if skim.too_deep:
        return _Evidence.CERTAIN
    if text.find('"', start, skim.end) >= 0:
        return _Evidence.LIKELY if only_a_string else _Evidence.CERTAIN
    if _QUOTED_KEY.match(text, skim.end) is not None:
        return _Evidence.CERTAIN
    if _LENIENT_BEGINNING[skim.still_open[-1]].match(text, skim.end) is not None:
        return _Evidence.LIKELY
    return _Evidence.LIKELY if _DIGIT.search(text, start, skim.end) is not None else _Evidence.PROSE


def _broke_behind_first_string(text: str, start: int, skim: Skim) -> bool:
    """Tell whether nothing but one string stood in it: its quotes may belong to the prose around a bracket."""
    quotes = text.count('"', start, skim.end)
    return len(skim.still_open) == 1 and (quotes == 1 or (quotes == 2 and text.startswith('"', skim.end - 1)))


@dataclass(slots=True)
class _Open:
    """Equal brackets of one broken value."""

    bracket: str
    start: int
    evidence: _Evidence
    count: int


class _Breaks:
    """The brackets that are still open because their container broke, innermost last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[_Open] = []
        self._counts = {"{": 0, "[": 0}
        self._evident = 0
        self._first_closed: int | None = None

    @property
    def inside_value(self) -> bool:
        """Tell whether a broken value is still open here."""
        return self._evident > 0

    def hold(self, at: int) -> bool:
        """Tell whether the value at `at` is a member of a value that broke before it."""
        if self.inside_value:
            return _follows(_MEMBER_OF_OPEN, self._text, at)
        return self._first_closed is not None and _follows(_MEMBER_AFTER_MEMBER, self._text, at)

    def knows(self, bracket: str) -> bool:
        """Tell whether anything was noted that a closer of that kind could belong to."""
        return self._counts[bracket] > 0 or self._first_closed is not None

    def add(self, brackets: str, start: int, evidence: _Evidence) -> None:
        """Note brackets that stay open, from a value that began at `start`."""
        for bracket, run in groupby(brackets):
            entry = _Open(bracket, start, evidence, len(list(run)))
            self._open.append(entry)
            self._counts[bracket] += entry.count
            self._evident += evidence is not _Evidence.PROSE

    def close(self, bracket: str) -> int | None:
        """Close the innermost bracket of that kind.

        Returns the start of the broken value that this shows to have gone on until here: what was found
        behind that start stood inside it. A closer that fits nothing shows that a broken value was taken for
        closed too early, by a bracket in one of its strings; which one is unknown, so the first is meant.
        """
        if not self._counts[bracket]:
            return self._first_closed
        while self._open[-1].bracket != bracket:
            self._pop()
        if self._open[-1].count > 1:
            self._open[-1].count -= 1
            self._counts[bracket] -= 1
            return None
        innermost = self._pop()
        if innermost.evidence is _Evidence.PROSE:
            return None
        if self._first_closed is None:
            self._first_closed = innermost.start
        return innermost.start

    def leave_region(self, region_start: int) -> int | None:
        """Forget what broke since `region_start`; return where the first value began that never ended."""
        unfinished: int | None = None
        while self._open and self._open[-1].start >= region_start:
            innermost = self._pop()
            if innermost.evidence is _Evidence.CERTAIN:
                unfinished = innermost.start
        if self._first_closed is not None and self._first_closed >= region_start:
            self._first_closed = None
        return unfinished

    def _pop(self) -> _Open:
        entry = self._open.pop()
        self._counts[entry.bracket] -= entry.count
        self._evident -= entry.evidence is not _Evidence.PROSE
        return entry


def _follows(lead: re.Pattern[str], text: str, at: int) -> bool:
    """Tell whether a lead, such as a quoted key or another member and a comma, stands right before `at`."""
    return lead.search(text[max(0, at - _LONGEST_LEAD) : at].rstrip()) is not None


def _begins_line(text: str, at: int) -> bool:
    start = max(0, at - _LONGEST_INDENT)
    line = text.rfind("\n", start, at)
    return (line >= 0 or start == 0) and _LINE_BEGINNING.fullmatch(text, line + 1, at) is not None


def _kind_of(info: str) -> FenceKind:
    language = info.lower()
    is_json = "json" in language or language.partition(" ")[0] in _DOCUMENT_LANGUAGES
    return FenceKind.JSON if is_json else FenceKind.CODE


_MARK: Final = re.compile(r"[\[\]{}<`~◁]")
_TEMPLATE_BRACES: Final = re.compile(r"(?:\{\s*+(?=\{))++")
_TEXT_ENDS: Final = re.compile(r"(?:\\u?)?[\w.+-]*+\s*+\Z")
_CDATA: Final = "<![CDATA["

_LONGEST_INDENT: Final = 80
_MARKS: Final = re.compile(r"`++|~++")
_FENCE_MARKS: Final = re.compile(r"`{3,}+|~{3,}+")
_INFO: Final = re.compile(r"[^\n`{\[]{0,200}+")
_LINE_BEGINNING: Final = re.compile(r"\s*+(?:>\s*+)*+(?:(?:[-*+]|[0-9]{1,3}[.)])\s++)?+")
_LANGUAGE_ONLY: Final = re.compile(r"(?:[A-Za-z][\w+#-]*+)?+[ \t\r]*+(?:\n|\Z)")
_NO_OPENING: Final = re.compile(r"[}\]]\s*\Z|```[^\n]*\Z")
_ATTRIBUTE: Final = r"""\s++[\w:.-]++(?:\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'|[^\s"'<>{}\[\]]++))?+"""
_TAG: Final = re.compile(rf"<(?P<closing>/?)(?P<name>[A-Za-z][\w:.-]*+)(?:{_ATTRIBUTE})*+\s*+/?+>")
_BRACKET_TAG: Final = re.compile(r"[◁\[](?P<closing>/?)(?P<name>think|THINK)[▷\]]")
_LONE_SCALAR: Final = re.compile(rf"\s*+({SCALAR})\s*+(?=`{{3}}|~{{3}}|</|◁/|\Z)")

_LONGEST_LEAD: Final = 120
_MEMBER_AFTER_MEMBER: Final = re.compile(r"""(?:["'”]\s*[:：]|[}\]]\s*,)\Z""")
_MEMBER_OF_OPEN: Final = re.compile(r"""(?:["'”]\s*[:：]|[{,]\s*[\w$.-]{1,60}\s*[:：]|[\[,，(])\Z""")
_DIGIT: Final = re.compile(r"[0-9]")
_QUOTED_KEY: Final = re.compile(r"""(?:'[^'\n]{0,200}'|“[^”\n]{0,200}”|\\"[^"\n]{0,200}\\")\s*[:：]""")
_LENIENT_BEGINNING: Final = {
    "{": re.compile(r"""['“\\]|//|/\*|\#|[\w$][\w$.-]{0,200}\s*[:：]"""),
    "[": re.compile(r"""['“\\(]|//|/\*|\#|[+-]?\.?[0-9]|(?:True|False|None)\b"""),
}
