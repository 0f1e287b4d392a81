"""The JSON grammar (RFC 8259) as patterns that swallow whole stretches of members at once.

Speed is the reason for their form: a run of siblings that are nested at most two levels deep is one match in
C. Every repetition is possessive, so that nothing is ever tried twice and time stays linear.
"""

import re
from functools import cache
from typing import Final

BLANKS: Final = r"[ \t\n\r]*+"
_STRING_BODY: Final = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+'
STRING: Final = _STRING_BODY + '"'
NUMBER: Final = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+"
SCALAR: Final = rf"(?:{STRING}|{NUMBER}|true|false|null)"


def _one_level_more(member: str) -> str:
    item = rf"{member}{BLANKS}"
    pair = rf"{STRING}{BLANKS}:{BLANKS}{item}"
    array = rf"\[{BLANKS}(?:{item}(?:,{BLANKS}{item})*+)?+\]"
    document = rf"\{{{BLANKS}(?:{pair}(?:,{BLANKS}{pair})*+)?+\}}"
    return rf"(?:{STRING}|{NUMBER}|true|false|null|{array}|{document})"


FLAT_LEVELS: Final = 2
_FLAT: Final = _one_level_more(_one_level_more(SCALAR))

_MEMBERS: Final = {
    "[": rf"(?:{_FLAT}{BLANKS}(?:,{BLANKS}|(?P<last>(?=\]))))*+",
    "{": rf"(?:{STRING}{BLANKS}:{BLANKS}{_FLAT}{BLANKS}(?:,{BLANKS}|(?P<last>(?=\}}))))*+",
}


@cache
def members(bracket: str) -> re.Pattern[str]:
    """Return the pattern for members with their commas, as many as are flat enough, behind `[` or `{`.

    Its group `last` took part when the closer comes next. It takes 20 ms to compile, so nobody waits who needs none.
    """
    return re.compile(_MEMBERS[bracket])


KEY: Final = re.compile(rf"{STRING}{BLANKS}:{BLANKS}")
OPENING: Final = re.compile(rf"[\[{{]{BLANKS}")
OPENINGS: Final = re.compile(rf"(?:\[{BLANKS}(?=[\[{{]))*+[\[{{]{BLANKS}")
"""A container's bracket, after those of the arrays that it is the first item of."""

SEPARATOR: Final = re.compile(rf"{BLANKS}(,?){BLANKS}")
WHOLE_STRING: Final = re.compile(STRING)
BROKEN_STRING: Final = re.compile(_STRING_BODY)
BEGINS_CONTAINER: Final = re.compile(rf'\{{{BLANKS}["}}]|\[{BLANKS}["\[\]{{\-0-9tfn]')
"""What a strict container begins with; everything else needs no closer look."""

CLOSER: Final = {"{": "}", "[": "]"}
OPENER: Final = {"}": "{", "]": "["}
