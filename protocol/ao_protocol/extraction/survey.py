"""Go over the text once and note every value that may be the answer, with the region it stands in.

A value inside another one is never noted. Fences and tags are looked for only between values, so those that
stand in a string are invisible.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ao_protocol.extraction.breaks import (
    Breaks,
    Evidence,
    broke_behind_first_string,
    follows_members,
    judge_break,
)
from ao_protocol.extraction.extraction_result import MAX_BREAKS, MAX_CANDIDATES, NoJsonFound, Reason
from ao_protocol.extraction.grammar import BEGINS_CONTAINER, OPENING, Skim, end_of, skim_container
from ao_protocol.extraction.regions import (
    THINKING_TAGS,
    FenceKind,
    Region,
    Regions,
    read_fence,
    read_scalar,
    read_tag,
)


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
    breaks: int = 0

    def add(self, candidate: Candidate, *, broken: bool = False) -> None:
        """Note a span, or raise `NoJsonFound` where there are too many."""
        candidates = self.broken if broken else self.values
        if len(candidates) >= MAX_CANDIDATES:
            raise NoJsonFound(Reason.TOO_MANY_VALUES, f"more than {MAX_CANDIDATES}")
        candidates.append(candidate)

    def count_break(self) -> None:
        """Count a container that was followed and broke, or raise `NoJsonFound` where there are too many."""
        self.breaks += 1
        if self.breaks > MAX_BREAKS:
            raise NoJsonFound(Reason.TOO_MANY_VALUES, f"more than {MAX_BREAKS} broken ones")

    def drop_behind(self, start: int) -> None:
        """Take back what stands behind `start`, complete or broken: it is a piece of something larger."""
        for candidates in (self.values, self.broken):
            while candidates and candidates[-1].start > start:
                candidates.pop()
                self.pieces_dropped = True


def survey(text: str) -> Candidates:
    """Return the values of the text in their order.

    Linear in the length of the text, whatever it holds.

    Raises:
        NoJsonFound: `TOO_MANY_VALUES`.
    """
    return _Survey(text).run()


class _Survey:
    def __init__(self, text: str) -> None:
        self._text = text
        self._found = Candidates()
        self._regions = Regions()
        self._breaks = Breaks()
        self._comments_may_end = True
        self._steps: dict[str, Callable[[int], int]] = {
            "{": self._at_opener,
            "[": self._at_opener,
            "}": self._at_closer,
            "]": self._at_closer,
            "`": self._at_fence,
            "~": self._at_fence,
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
        if read_tag(text, at) is not None:
            return self._at_tag(at)
        template = _TEMPLATE_BRACES.match(text, at)
        if template is not None:
            self._breaks.add("{" * template[0].count("{"), at, Evidence.PROSE)
            return template.end()
        if BEGINS_CONTAINER.match(text, at) is None:
            return self._note_break(at, Skim(end_of(OPENING, text, at), text[at]))
        skim = skim_container(text, at)
        if skim.still_open:
            self._found.count_break()
            return self._note_break(at, skim)
        if self._breaks.hold(text, at):
            self._found.pieces_dropped = True
        else:
            self._found.add(Candidate(at, skim.end, self._regions.innermost))
        return skim.end

    def _note_break(self, at: int, skim: Skim) -> int:
        text, end, brackets = self._text, skim.end, skim.still_open
        evidence = Evidence.CERTAIN if skim.too_deep else judge_break(text, at, end, brackets)
        if evidence is not Evidence.PROSE:
            cut = _TEXT_ENDS.match(text, end) is not None
            broken = Reason.TRUNCATED if cut else Reason.INVALID_JSON
            self._found.reason_of_break = Reason.TOO_DEEP if skim.too_deep else broken
            if not self._breaks.inside_value and not self._breaks.hold(text, at):
                self._found.add(Candidate(at, end, self._regions.innermost), broken=True)
        self._breaks.add(brackets, at, evidence)
        prose_quotes = end > at + 1 and broke_behind_first_string(text, at, end, brackets)
        return at + 1 if prose_quotes else end

    def _at_closer(self, at: int) -> int:
        closer = self._text[at]
        if not self._breaks.knows(closer):
            self._drop_headless_pieces()
        elif (broken_since := self._breaks.close(closer)) is not None:
            self._found.drop_behind(broken_since)
        return at + 1

    def _drop_headless_pieces(self) -> None:
        """A closer without an opener: the text begins inside a value, as when an answer is continued."""
        values = self._found.values
        while values and follows_members(self._text, values[-1].start):
            self._found.drop_behind(values[-1].start - 1)

    def _at_fence(self, at: int) -> int:
        fence = read_fence(self._text, at)
        if fence is None:
            return end_of(_MARKS, self._text, at)
        open_marks = self._regions.fence_marks
        if fence.bare and open_marks and fence.marks.startswith(open_marks):
            self._leave(self._regions.close_fence(at))
        elif fence.may_open and not (fence.bare and open_marks):
            self._regions.open_fence(at, fence.marks, fence.kind)
            return self._take_scalar(fence.end)
        return fence.end

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
        tag = read_tag(self._text, at)
        if tag is None:
            return at + 1
        in_code = self._regions.innermost.fence is FenceKind.CODE
        if not tag.name or (in_code and not (tag.closing and self._regions.has_open(tag.name))):
            return tag.end
        if not tag.closing:
            self._regions.open_tag(at, tag.name)
            return self._take_scalar(tag.end)
        opened = self._regions.close_tag(tag.name, at)
        if opened is not None:
            self._leave(opened)
        elif tag.name in THINKING_TAGS:
            self._forget_thinking_without_head()
        return tag.end

    def _forget_thinking_without_head(self) -> None:
        """Some chat templates put the opening tag into the prompt, so that only its end is in the answer."""
        self._leave(0)
        self._found.drop_behind(-1)
        self._found.broken.clear()
        self._found.unfinished_at = None
        self._regions = Regions()

    def _take_scalar(self, at: int) -> int:
        """Take the string, number or literal that is all that the region just opened holds."""
        span = read_scalar(self._text, at)
        if span is None:
            return at
        self._found.add(Candidate(*span, self._regions.innermost))
        return span[1]

    def _leave(self, region_start: int) -> None:
        unfinished = self._breaks.leave_region(region_start)
        if unfinished is not None:
            self._found.drop_behind(unfinished)
            self._found.unfinished_at = unfinished


_MARK: Final = re.compile(r"[\[\]{}<`~◁]")
_MARKS: Final = re.compile(r"`++|~++")
_TEMPLATE_BRACES: Final = re.compile(r"(?:\{\s*+(?=\{))++")
_TEXT_ENDS: Final = re.compile(r"(?:\\u?)?[\w.+-]*+\s*+\Z")
_CDATA: Final = "<![CDATA["
