"""Containers that break: how certain it is that they were meant as JSON, and the brackets that they leave open."""

import re
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import Final

from ao_protocol.extraction.strict_json import Skim


class Evidence(IntEnum):
    """How certain it is that a broken container was meant as JSON."""

    PROSE = 0
    """A placeholder, a wiki link, CSS: nothing after the bracket looks like JSON."""
    LIKELY = 1
    """A member comes right after the bracket, or a text that a lenient reader accepts as a member."""
    CERTAIN = 2
    """The container has a whole string or a quoted key, or is nested beyond the limit."""


def judge_break(text: str, start: int, skim: Skim, only_a_string: bool) -> Evidence:
    """Return the evidence for the broken container at `start`."""
    if skim.too_deep:
        return Evidence.CERTAIN
    if text.find('"', start, skim.end) >= 0:
        return Evidence.LIKELY if only_a_string else Evidence.CERTAIN
    if _QUOTED_KEY.match(text, skim.end) is not None:
        return Evidence.CERTAIN
    if _LENIENT_BEGINNING[skim.still_open[-1]].match(text, skim.end) is not None:
        return Evidence.LIKELY
    return Evidence.LIKELY if _DIGIT.search(text, start, skim.end) is not None else Evidence.PROSE


def broke_behind_first_string(text: str, start: int, skim: Skim) -> bool:
    """Return whether the container has only one string, whose quotes may belong to the prose around it."""
    quotes = text.count('"', start, skim.end)
    return len(skim.still_open) == 1 and (quotes == 1 or (quotes == 2 and text.startswith('"', skim.end - 1)))


@dataclass(slots=True)
class _Open:
    """A run of equal brackets of one broken value."""

    bracket: str
    start: int
    evidence: Evidence
    count: int


class Breaks:
    """The brackets that are still open because their container broke, the innermost last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[_Open] = []
        self._counts = {"{": 0, "[": 0}
        self._evident = 0
        self._first_closed: int | None = None

    @property
    def inside_value(self) -> bool:
        """Whether a broken value is still open."""
        return self._evident > 0

    def hold(self, at: int) -> bool:
        """Return whether the value at `at` is a member of a value that broke before it."""
        if self.inside_value:
            return follows(_MEMBER_OF_OPEN, self._text, at)
        return self._first_closed is not None and follows(MEMBER_AFTER_MEMBER, self._text, at)

    def knows(self, bracket: str) -> bool:
        """Return whether a closing bracket of that kind can belong to a noted bracket."""
        return self._counts[bracket] > 0 or self._first_closed is not None

    def add(self, brackets: str, start: int, evidence: Evidence) -> None:
        """Note brackets that remain open, of a value that began at `start`."""
        for bracket, run in groupby(brackets):
            entry = _Open(bracket, start, evidence, len(list(run)))
            self._open.append(entry)
            self._counts[bracket] += entry.count
            self._evident += evidence is not Evidence.PROSE

    def close(self, bracket: str) -> int | None:
        """Close the innermost bracket of that kind.

        A closing bracket that fits no open one shows that a broken value was considered closed too early, because of a
        bracket in one of its strings. It is unknown which value, so the first one is returned.

        Returns:
            The start of the broken value that, as the bracket shows, continued until here, so that the values after its
            start are inside it; otherwise None.
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
        if innermost.evidence is Evidence.PROSE:
            return None
        if self._first_closed is None:
            self._first_closed = innermost.start
        return innermost.start

    def leave_region(self, region_start: int) -> int | None:
        """Forget breaks since `region_start`; return the start of the first value that never ended, or None."""
        unfinished: int | None = None
        while self._open and self._open[-1].start >= region_start:
            innermost = self._pop()
            if innermost.evidence is Evidence.CERTAIN:
                unfinished = innermost.start
        if self._first_closed is not None and self._first_closed >= region_start:
            self._first_closed = None
        return unfinished

    def _pop(self) -> _Open:
        entry = self._open.pop()
        self._counts[entry.bracket] -= entry.count
        self._evident -= entry.evidence is not Evidence.PROSE
        return entry


def follows(lead: re.Pattern[str], text: str, at: int) -> bool:
    """Return whether a lead, such as a quoted key or another member and a comma, is right before `at`."""
    return lead.search(text[max(0, at - _LONGEST_LEAD) : at].rstrip()) is not None


_LONGEST_LEAD: Final = 120
MEMBER_AFTER_MEMBER: Final = re.compile(r"""(?:["'”]\s*[:：]|[}\]]\s*,)\Z""")
_MEMBER_OF_OPEN: Final = re.compile(r"""(?:["'”]\s*[:：]|[{,]\s*[\w$.-]{1,60}\s*[:：]|[\[,，(])\Z""")
_DIGIT: Final = re.compile(r"[0-9]")
_QUOTED_KEY: Final = re.compile(r"""(?:'[^'\n]{0,200}'|“[^”\n]{0,200}”|\\"[^"\n]{0,200}\\")\s*[:：]""")
_LENIENT_BEGINNING: Final = {
    "{": re.compile(r"""['“\\]|//|/\*|\#|[\w$][\w$.-]{0,200}\s*[:：]"""),
    "[": re.compile(r"""['“\\(]|//|/\*|\#|[+-]?\.?[0-9]|(?:True|False|None)\b"""),
}
