"""Containers that broke: were they meant to be JSON, and what is a piece of one?

What stands inside a broken container, or goes on behind it, is a piece of a truncated or damaged answer. A piece may
well match the schema. It must not pass for the answer.
"""

import re
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import Final

from ao_protocol.extraction.grammar import OPENER


class Evidence(IntEnum):
    """How sure it is that a broken container was meant to be JSON."""

    PROSE = 0
    """A placeholder, a wiki link, CSS: nothing behind the bracket looks like JSON."""
    LIKELY = 1
    """A member, or what a lenient reader would take for one, comes right behind it."""
    CERTAIN = 2
    """A whole string stood in it, or it was nested beyond the cap."""


def judge_break(text: str, start: int, end: int, brackets: str) -> Evidence:
    """Judge the container from `start` that broke at `end`, where `brackets` were still open."""
    if text.find('"', start, end) >= 0:
        return Evidence.LIKELY if broke_behind_first_string(text, start, end, brackets) else Evidence.CERTAIN
    if _QUOTED_KEY.match(text, end) is not None:
        return Evidence.CERTAIN
    if _LENIENT_BEGINNING[brackets[-1]].match(text, end) is not None:
        return Evidence.LIKELY
    return Evidence.LIKELY if _DIGIT.search(text, start, end) is not None else Evidence.PROSE


def broke_behind_first_string(text: str, start: int, end: int, brackets: str) -> bool:
    """Tell whether nothing but one string stood in it: its quotes may belong to the prose around a bracket."""
    quotes = text.count('"', start, end)
    return len(brackets) == 1 and (quotes == 1 or (quotes == 2 and text.startswith('"', end - 1)))


@dataclass(slots=True)
class _Open:
    bracket: str
    start: int
    evidence: Evidence
    count: int = 1


class Breaks:
    """The brackets that are still open because their container broke, innermost last."""

    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._counts = {"{": 0, "[": 0}
        self._evident = 0
        self._first_closed: int | None = None

    @property
    def inside_value(self) -> bool:
        """Tell whether a broken value is still open here."""
        return self._evident > 0

    def hold(self, text: str, at: int) -> bool:
        """Tell whether the value at `at` is a member of a value that broke before it."""
        if self.inside_value:
            return _lead_matches(_MEMBER_OF_OPEN, text, at)
        return self._first_closed is not None and follows_members(text, at)

    def knows(self, closer: str) -> bool:
        """Tell whether anything was noted that such a closer could belong to."""
        return self._counts[OPENER[closer]] > 0 or self._first_closed is not None

    def add(self, brackets: str, start: int, evidence: Evidence) -> None:
        """Note brackets that stay open, from a value that began at `start`."""
        for bracket, run in groupby(brackets):
            entry = _Open(bracket, start, evidence, len(list(run)))
            self._open.append(entry)
            self._counts[bracket] += entry.count
            self._evident += evidence is not Evidence.PROSE

    def close(self, closer: str) -> int | None:
        """Close the innermost bracket of that kind.

        Returns the start of the broken value that this shows to have gone on until here: what was found
        behind that start stood inside it. A closer that fits nothing shows that a broken value was taken for
        closed too early, by a bracket in one of its strings; which one is unknown, so the first is meant.
        """
        bracket = OPENER[closer]
        if not self._counts[bracket]:
            return self._first_closed
        while self._open[-1].bracket != bracket:
            self._pop()
        innermost = self._open[-1]
        if innermost.count > 1:
            innermost.count -= 1
            self._counts[bracket] -= 1
            return None
        self._pop()
        if innermost.evidence is Evidence.PROSE:
            return None
        if self._first_closed is None:
            self._first_closed = innermost.start
        return innermost.start

    def leave_region(self, region_start: int) -> int | None:
        """Forget what broke since `region_start`; return where the first value began that never ended."""
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


def follows_members(text: str, at: int) -> bool:
    """Tell whether a quoted key, or another member and a comma, stand right before `at`."""
    return _lead_matches(_MEMBER_AFTER_MEMBER, text, at)


def _lead_matches(pattern: re.Pattern[str], text: str, at: int) -> bool:
    return pattern.search(text[max(0, at - _LONGEST_LEAD) : at].rstrip()) is not None


_LONGEST_LEAD: Final = 120
_MEMBER_AFTER_MEMBER: Final = re.compile(r"""(?:["'”]\s*[:：]|[}\]]\s*,)\Z""")
_MEMBER_OF_OPEN: Final = re.compile(r"""(?:["'”]\s*[:：]|[{,]\s*[\w$.-]{1,60}\s*[:：]|[\[,，(])\Z""")
_DIGIT: Final = re.compile(r"[0-9]")
_QUOTED_KEY: Final = re.compile(r"""(?:'[^'\n]{0,200}'|“[^”\n]{0,200}”|\\"[^"\n]{0,200}\\")\s*[:：]""")
_LENIENT_BEGINNING: Final = {
    "{": re.compile(r"""['“\\]|//|/\*|\#|[\w$][\w$.-]{0,200}\s*[:：]"""),
    "[": re.compile(r"""['“\\(]|//|/\*|\#|[+-]?\.?[0-9]|(?:True|False|None)\b"""),
}
