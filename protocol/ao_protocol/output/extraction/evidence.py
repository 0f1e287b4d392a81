"""Judge a bracket that led to no value: was it meant to begin JSON, or is it prose?"""

import re
from enum import IntEnum
from typing import Final


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


_DIGIT: Final = re.compile(r"[0-9]")
_QUOTED_KEY: Final = re.compile(r"""(?:'[^'\n]{0,200}'|“[^”\n]{0,200}”|\\"[^"\n]{0,200}\\")\s*[:：]""")
_LENIENT_BEGINNING: Final = {
    "{": re.compile(r"""['“\\]|//|/\*|\#|[\w$][\w$.-]{0,200}\s*[:：]"""),
    "[": re.compile(r"""['“\\(]|//|/\*|\#|[+-]?\.?[0-9]|(?:True|False|None)\b"""),
}
