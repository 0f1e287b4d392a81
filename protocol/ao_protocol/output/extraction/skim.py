"""Tell where a container that begins at a given place ends, or where it breaks, without building it.

A pushdown automaton with an explicit stack: it cannot overflow, and it never goes back behind a place that
it has reported, which makes the whole search linear.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ao_protocol.output.extraction.grammar import (
    BROKEN_STRING,
    CLOSER,
    FLAT_LEVELS,
    KEY,
    OPENINGS,
    SEPARATOR,
    WHOLE_STRING,
    members,
)
from ao_protocol.output.extraction.limits import MAX_DEPTH

_MAX_OPEN: Final = MAX_DEPTH - FLAT_LEVELS


@dataclass(frozen=True, slots=True)
class Skim:
    """How far a container goes.

    `end` is the place behind its closer or, when it breaks, the place of the first character that does not
    fit. `still_open` holds the brackets that were open there: empty means that the container is complete.
    """

    end: int
    still_open: str = ""
    too_deep: bool = False


class _Next(Enum):
    CLOSED = auto()
    MEMBER = auto()
    MISFIT = auto()


def skim_container(text: str, start: int) -> Skim:
    """Follow the container whose bracket stands at `start`, at most `MAX_DEPTH` levels down."""
    open_brackets: list[str] = []
    position: int = start
    begins: int | None = start
    while begins is not None:
        inside = end_of(OPENINGS, text, begins)
        open_brackets.extend("".join(text[begins:inside].split()))
        if len(open_brackets) > _MAX_OPEN:
            return Skim(inside, "".join(open_brackets), too_deep=True)
        position, ahead = _enter(text, inside, open_brackets[-1])
        while ahead is _Next.CLOSED:
            open_brackets.pop()
            if not open_brackets:
                return Skim(position)
            position, ahead = _go_on(text, position, open_brackets[-1])
        begins = _next_container(text, position, open_brackets[-1]) if ahead is _Next.MEMBER else None
    return Skim(_first_misfit(text, position, open_brackets[-1]), "".join(open_brackets))


def _enter(text: str, inside: int, bracket: str) -> tuple[int, _Next]:
    """Take the first members of a container, as far as they are flat."""
    if text.startswith(CLOSER[bracket], inside):
        return inside + 1, _Next.CLOSED
    return _take_members(text, inside, bracket)


def _go_on(text: str, position: int, bracket: str) -> tuple[int, _Next]:
    """Go on behind a member that was not flat."""
    separator = _matched(SEPARATOR, text, position)
    if separator[1]:
        return _take_members(text, separator.end(), bracket)
    if text.startswith(CLOSER[bracket], separator.end()):
        return separator.end() + 1, _Next.CLOSED
    return separator.end(), _Next.MISFIT


def _take_members(text: str, position: int, bracket: str) -> tuple[int, _Next]:
    run = _matched(members(bracket), text, position)
    if run["last"] is not None:
        return run.end() + 1, _Next.CLOSED
    return run.end(), _Next.MEMBER


def _next_container(text: str, position: int, bracket: str) -> int | None:
    """Return the place where the next member begins, if it is a container."""
    if bracket == "{":
        key = KEY.match(text, position)
        if key is None:
            return None
        position = key.end()
    return position if text.startswith(("{", "["), position) else None


def _first_misfit(text: str, position: int, bracket: str) -> int:
    """Return the place behind what still fits; a string that is whole fits, whatever comes after it."""
    key = KEY.match(text, position) if bracket == "{" else None
    if key is not None:
        position = key.end()
    if not text.startswith('"', position):
        return position
    string = WHOLE_STRING.match(text, position)
    return string.end() if string is not None else end_of(BROKEN_STRING, text, position)


def end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Return where the match of a pattern ends that must match at `position`."""
    return _matched(pattern, text, position).end()


def _matched(pattern: re.Pattern[str], text: str, position: int) -> re.Match[str]:
    match = pattern.match(text, position)
    if match is None:
        raise AssertionError(f"{pattern.pattern!r} is only asked where it must match")
    return match
