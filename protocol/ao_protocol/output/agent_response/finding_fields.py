"""Issue, location and rationale of a finding's line, in whatever order and punctuation a model gave them.

Written are three parts between lone em dashes, and those are read by position. Of anything else, what looks like a
place in a file is the location: a part between dashes or colons, what stands before the issue, or what stands in
brackets behind it. What cannot be told apart surely stays together, so no word is ever lost.
"""

import re
from itertools import islice
from typing import Final, NamedTuple

from ao_protocol.output.agent_response.places_in_text import is_place, is_surely_place, may_hold_a_place
from ao_protocol.output.agent_response.plain_text import BLANKS

_BLANK_BEHIND: Final = r"(?![^ \t\n])"


def _lone(mark: str) -> str:
    """Return the pattern of a mark with blanks around it; the mark comes first, since that is searched fastest."""
    return rf"{mark}{_BLANK_BEHIND}(?<![^ \t\n]{mark})"


_ANY_DASH: Final = "|".join(map(_lone, ("—", "–", "--", "-")))
EM_DASH: Final = re.compile(_lone("—"))
DASHES: Final = (
    EM_DASH,
    re.compile(_lone("–")),
    re.compile(_lone("--")),
    re.compile(rf"-{_BLANK_BEHIND}(?:(?<=[^ \t\n][ \t]-)|(?<=[^ \t\n][ \t]{{2}}-))"),
    re.compile("—"),
)
"""From the surest on. A hyphen at the beginning of a line is the bullet of a list inside the finding."""
_AROUND_A_PLACE: Final = (
    *DASHES[:3],
    re.compile(_lone("-")),
    re.compile(_ANY_DASH),
    re.compile("—"),
    re.compile(rf":{_BLANK_BEHIND}"),
    re.compile(rf"{_ANY_DASH}|:{_BLANK_BEHIND}"),
)
_MAX_SEPARATORS: Final = 32
"""Behind so many, a dash is part of the rationale."""
_FIRST_WORD: Final = re.compile(r"[ \t\n]*(?P<word>\S+)")
_BEHIND_A_PLACE: Final = re.compile(r"[ \t\n]+(?:—|–|--|-)(?=[ \t\n])")
_BRACKETED: Final = re.compile(r"\((?P<round>[^()\n]{1,400})\)|\[(?P<square>[^\[\]\n]{1,400})\]")
_BEHIND_A_BRACKET: Final = re.compile(rf"[.,;]?(?:[ \t\n]*\Z|[ \t\n]*(?:—|–|--|-|:){_BLANK_BEHIND})")


class Fields(NamedTuple):
    """Pieces of the line, with the blanks around them."""

    issue: str
    location: str
    rationale: str


def fields_of(body: str) -> Fields:
    """Return the fields of a finding, of which `body` is the text behind the priority; no issue is no text at all."""
    fields = _told_apart(body)
    return fields if fields.issue.strip(BLANKS) else Fields(body, "", "")


def _told_apart(body: str) -> Fields:
    parts = _parts(body, EM_DASH)
    if len(parts) == 3 and is_place(_piece(body, parts[1])):
        return Fields(*(_piece(body, part) for part in parts))
    found = None
    if may_hold_a_place(body):
        found = _place_first(body) or _place_between(body) or _place_in_brackets(body)
    return found or _by_position(body)


def _place_first(body: str) -> Fields | None:
    """Read `file:line: issue — rationale`, `file:line — issue`, `[file:line] issue`."""
    first = _FIRST_WORD.match(body)
    if first is None:
        return None
    bracketed = _BRACKETED.match(body, first.start("word"))
    if bracketed is not None and is_surely_place(_inside(bracketed)):
        behind = _BEHIND_A_BRACKET.match(body, bracketed.end())
        return _with_location(_inside(bracketed), body[behind.end() if behind else bracketed.end() :])
    word = first["word"]
    if word.endswith(":") and is_surely_place(word[:-1]):
        return _with_location(word[:-1], body[first.end() :])
    dash = _BEHIND_A_PLACE.match(body, first.end())
    return _with_location(word, body[dash.end() :]) if dash is not None and is_surely_place(word) else None


def _place_between(body: str) -> Fields | None:
    """Read a place that is a whole part; behind it stands the rationale, or nothing if the place comes last."""
    for separator in _AROUND_A_PLACE:
        parts = _parts(body, separator)
        for index, part in enumerate(parts[1:], 1):
            if not is_place(_piece(body, part)):
                continue
            location = _piece(body, part)
            if index + 1 < len(parts):
                return Fields(body[: parts[index - 1][1]], location, body[parts[index + 1][0] :])
            return Fields(_piece(body, parts[0]), location, body[parts[1][0] : parts[index - 1][1]])
    return None


def _place_in_brackets(body: str) -> Fields | None:
    """Read `issue (file:line) — rationale`, and brackets at the very end."""
    for bracketed in islice(_BRACKETED.finditer(body), _MAX_SEPARATORS):
        behind = _BEHIND_A_BRACKET.match(body, bracketed.end())
        if behind is None or not is_surely_place(_inside(bracketed)):
            continue
        rationale = body[behind.end() :]
        if rationale.strip(BLANKS):
            return Fields(body[: bracketed.start()], _inside(bracketed), rationale)
        return _with_location(_inside(bracketed), body[: bracketed.start()])
    return None


def _by_position(body: str) -> Fields:
    for dash in DASHES:
        parts = _parts(body, dash)
        if len(parts) == 3:
            return Fields(*(_piece(body, part) for part in parts))
        if len(parts) > 1:
            return Fields(_piece(body, parts[0]), "", body[parts[1][0] :])
    return Fields(body, "", "")


def _with_location(location: str, rest: str) -> Fields | None:
    """Return the fields if the rest, which holds issue and rationale, has an issue."""
    for dash in DASHES:
        parts = _parts(rest, dash)
        if len(parts) > 1 and _piece(rest, parts[0]).strip(BLANKS):
            return Fields(_piece(rest, parts[0]), location, rest[parts[1][0] :])
    return Fields(rest, location, "") if rest.strip(BLANKS) else None


def _inside(bracketed: re.Match[str]) -> str:
    return bracketed["round"] or bracketed["square"]


def _parts(body: str, separator: re.Pattern[str]) -> list[tuple[int, int]]:
    parts, start = [], 0
    for match in islice(separator.finditer(body), _MAX_SEPARATORS):
        parts.append((start, match.start()))
        start = match.end()
    return [*parts, (start, len(body))]


def _piece(body: str, part: tuple[int, int]) -> str:
    return body[part[0] : part[1]]
