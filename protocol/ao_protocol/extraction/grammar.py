"""The JSON grammar (RFC 8259): where a container that begins at a given place ends, or where it breaks.

Patterns swallow whole stretches of members at once: a run of siblings that are nested at most two levels deep is one
match in C. Every repetition is possessive, so that nothing is tried twice. `skim_container` is a pushdown automaton
with an explicit stack: it cannot overflow, and it never goes back behind a place that it has reported, which makes the
whole search linear.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, TypeAlias

from ao_protocol.extraction.extraction_result import MAX_DEPTH

BLANKS: Final = r"[ \t\n\r]*+"
_STRING_BODY: Final = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+'
STRING: Final = _STRING_BODY + '"'
NUMBER: Final = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+"
SCALAR: Final = rf"(?:{STRING}|{NUMBER}|true|false|null)"

OPENING: Final = re.compile(rf"[\[{{]{BLANKS}")
BEGINS_CONTAINER: Final = re.compile(rf'\{{{BLANKS}["}}]|\[{BLANKS}["\[\]{{\-0-9tfn]')
"""What a strict container begins with; everything else needs no closer look."""
_OPENINGS: Final = re.compile(rf"(?:\[{BLANKS}(?=[\[{{]))*+[\[{{]{BLANKS}")
"""A container's bracket, after those of the arrays that it is the first item of."""
_KEY: Final = re.compile(rf"{STRING}{BLANKS}:{BLANKS}")
_SEPARATOR: Final = re.compile(rf"{BLANKS}(,?){BLANKS}")
_WHOLE_STRING: Final = re.compile(STRING)
_BROKEN_STRING: Final = re.compile(_STRING_BODY)

CLOSER: Final = {"{": "}", "[": "]"}
OPENER: Final = {"}": "{", "]": "["}
_FLAT_LEVELS: Final = 2
_MAX_OPEN: Final = MAX_DEPTH - _FLAT_LEVELS


@dataclass(frozen=True, slots=True)
class Skim:
    """How far a container goes.

    `end` is the place behind its closer or, when it breaks, the place of the first character that does not
    fit. `still_open` holds the brackets that were open there: empty means that the container is complete.
    """

    end: int
    still_open: str = ""
    too_deep: bool = False


_Next: TypeAlias = Literal["closed", "member", "misfit"]


def skim_container(text: str, start: int) -> Skim:
    """Follow the container whose bracket stands at `start`, at most `MAX_DEPTH` levels down."""
    open_brackets: list[str] = []
    position: int = start
    begins: int | None = start
    while begins is not None:
        inside = end_of(_OPENINGS, text, begins)
        open_brackets.extend("".join(text[begins:inside].split()))
        if len(open_brackets) > _MAX_OPEN:
            return Skim(inside, "".join(open_brackets), too_deep=True)
        bracket = open_brackets[-1]
        if text.startswith(CLOSER[bracket], inside):
            position, ahead = inside + 1, "closed"
        else:
            position, ahead = _take_members(text, inside, bracket)
        while ahead == "closed":
            open_brackets.pop()
            if not open_brackets:
                return Skim(position)
            position, ahead = _go_on(text, position, open_brackets[-1])
        begins = _next_container(text, position, open_brackets[-1]) if ahead == "member" else None
    return Skim(_first_misfit(text, position, open_brackets[-1]), "".join(open_brackets))


def _take_members(text: str, position: int, bracket: str) -> tuple[int, _Next]:
    run = _matched(_members(bracket), text, position)
    return (run.end(), "member") if run["last"] is None else (run.end() + 1, "closed")


def _go_on(text: str, position: int, bracket: str) -> tuple[int, _Next]:
    """Go on behind a member that was not flat."""
    separator = _matched(_SEPARATOR, text, position)
    if separator[1]:
        return _take_members(text, separator.end(), bracket)
    if text.startswith(CLOSER[bracket], separator.end()):
        return separator.end() + 1, "closed"
    return separator.end(), "misfit"


def _next_container(text: str, position: int, bracket: str) -> int | None:
    """Return the place where the next member begins, if it is a container."""
    if bracket == "{":
        key = _KEY.match(text, position)
        if key is None:
            return None
        position = key.end()
    return position if text.startswith(("{", "["), position) else None


def _first_misfit(text: str, position: int, bracket: str) -> int:
    """Return the place behind what still fits; a string that is whole fits, whatever comes after it."""
    key = _KEY.match(text, position) if bracket == "{" else None
    if key is not None:
        position = key.end()
    if not text.startswith('"', position):
        return position
    string = _WHOLE_STRING.match(text, position)
    return string.end() if string is not None else end_of(_BROKEN_STRING, text, position)


@cache
def _members(bracket: str) -> re.Pattern[str]:
    """Return the pattern for members with their commas, as many as are flat enough, behind `[` or `{`.

    Its group `last` took part when the closer comes next. It takes 20 ms to compile, so nobody waits who needs none.
    """
    flat = SCALAR
    for _ in range(_FLAT_LEVELS):
        item = rf"{flat}{BLANKS}"
        pair = rf"{STRING}{BLANKS}:{BLANKS}{item}"
        array = rf"\[{BLANKS}(?:{item}(?:,{BLANKS}{item})*+)?+\]"
        document = rf"\{{{BLANKS}(?:{pair}(?:,{BLANKS}{pair})*+)?+\}}"
        flat = rf"(?:{STRING}|{NUMBER}|true|false|null|{array}|{document})"
    member = flat if bracket == "[" else rf"{STRING}{BLANKS}:{BLANKS}{flat}"
    return re.compile(rf"(?:{member}{BLANKS}(?:,{BLANKS}|(?P<last>(?=\{CLOSER[bracket]}))))*+")


def end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Return where the match of a pattern ends that must match at `position`."""
    return _matched(pattern, text, position).end()


def _matched(pattern: re.Pattern[str], text: str, position: int) -> re.Match[str]:
    match = pattern.match(text, position)
    if match is None:
        raise AssertionError(f"{pattern.pattern!r} is only asked where it must match")
    return match
