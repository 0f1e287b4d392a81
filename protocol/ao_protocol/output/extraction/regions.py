"""Which fences and tags a place in the text stands in.

Fences follow CommonMark 4.5: a closing fence is at least as long as its opening one and carries no info
string. Models nest them, so a fence with an info string inside another one opens a fence of its own.
What a region means is known only when it has been closed, or the text has ended.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from ao_protocol.output.extraction.vocabulary import ANSWER_TAGS, QUOTED_TAGS, THINKING_TAGS, TOOL_TAGS


class FenceKind(IntEnum):
    """What the info string of the fence says about its content; of nested fences the least JSON-like counts."""

    NONE = 0
    JSON = 1
    CODE = 2


@dataclass(slots=True)
class Region:
    """A fence or a tag: where it was opened, what it is in, and, once that is known, what that means.

    `introduced_at` is the place where the sentence that introduces its content ends.
    """

    start: int
    parent: Self | None
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
        self._open: list[Region] = []
        self._fences: list[int] = []
        self._tags: dict[str, list[int]] = {}

    @property
    def innermost(self) -> Region | None:
        """Return the region that stands open here."""
        return self._open[-1] if self._open else None

    @property
    def fence_marks(self) -> str:
        """Return the marks of the innermost open fence, or nothing."""
        return self._open[self._fences[-1]].marks if self._fences else ""

    @property
    def in_code(self) -> bool:
        """Tell whether a fence for another language stands open here."""
        return bool(self._open) and self._open[-1].fence is FenceKind.CODE

    def has_open(self, tag: str) -> bool:
        """Tell whether a tag of that name stands open here."""
        return bool(self._tags.get(tag))

    def open_fence(self, start: int, marks: str, kind: FenceKind) -> None:
        """Open a fence whose marks begin at `start`."""
        self._fences.append(len(self._open))
        region = self._add(Region(start, self.innermost, marks=marks))
        region.fence = max(region.fence, kind)
        if region.introduced_at is None:
            region.introduced_at = start

    def open_tag(self, start: int, tag: str) -> None:
        """Open a tag that begins at `start`."""
        self._tags.setdefault(tag, []).append(len(self._open))
        self._add(Region(start, self.innermost, tag=tag))

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

    def _add(self, region: Region) -> Region:
        if region.parent is not None:
            region.fence = region.parent.fence
            region.introduced_at = region.parent.introduced_at
        self._all.append(region)
        self._open.append(region)
        return region

    def _close_from(self, index: int, end: int) -> int:
        for region in reversed(self._open[index:]):
            region.end = end
            if region.tag:
                self._tags[region.tag].pop()
            else:
                self._fences.pop()
        start = self._open[index].start
        self._open[index].closed = True
        del self._open[index:]
        return start
