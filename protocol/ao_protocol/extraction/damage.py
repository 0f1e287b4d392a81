"""Where and why a JSON text breaks, in words for the model that wrote it and is asked again.

Python's decoder and `skim_container` stop at the same character; the decoder also says whether it is inside a string.
"""

import json
import re
from typing import Final

from ao_protocol.extraction.strict_json import NoJsonFound, Reason
from ao_protocol.json_words import printable

MAX_EXCERPT_CHARACTERS: Final = 24
"""The number of characters that are shown on either side of a place."""


def refusal_at(reason: Reason, text: str, at: int, why: str = "") -> NoJsonFound:
    """Return a refusal with the line and the column of a character, both from 1, why, and the characters around it."""
    line, begins = text.count("\n", 0, at) + 1, text.rfind("\n", 0, at) + 1
    around = text[max(0, at - MAX_EXCERPT_CHARACTERS) : at + MAX_EXCERPT_CHARACTERS]
    return NoJsonFound(reason, f"line {line}, column {at - begins + 1}{why}", printable(" ".join(around.split())))


def break_in(text: str, start: int, end: int, limit: int) -> tuple[int, str]:
    """Return the place where a container breaks, and why.

    Args:
        text: The text.
        start: The place of the container's bracket.
        end: The first character that does not fit, as `skim_container` found it.
        limit: The end of the fence, of the tag or of the text around the container.
    """
    text = text[:limit]
    at, said = end, ""
    try:
        _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        at, said = error.pos, error.msg
    except (ValueError, RecursionError):
        pass  # NaN, Infinity, or the caller's stack is used up
    return _break_in_string(text, start, at, said) or _break_between(text, start, at, said)


def _break_in_string(text: str, start: int, at: int, said: str) -> tuple[int, str] | None:
    if said.startswith("Unterminated") or (said.startswith("Invalid control") and not text[at:].strip()):
        return at, r'this string never ends; close it with ", and write a " inside it as \"'
    if said.startswith("Invalid control"):
        return at, f"a {_CONTROLS.get(text[at], 'control character')} in a string has to be {printable(text[at])}"
    if said.startswith("Invalid \\"):
        at = text.rfind("\\", start, at + 1)
        escape = text[at : at + 2]
        why = _ESCAPES.get(escape, r"begins no escape of JSON; write a backslash as \\")
        return at, f"{printable(escape)} {why}"
    return None


def _break_between(text: str, start: int, at: int, said: str) -> tuple[int, str]:
    at += len(text[at:]) - len(text[at:].lstrip())
    last = start + len(text[start:at].rstrip()) - 1
    if said.startswith("Illegal") or (text[last] == "," and text.startswith(("}", "]"), at)):
        return text.rfind(",", start, at + 1), "no comma may stand behind the last member"
    if said.startswith("Expecting ','") and text[last] == '"' and _FOLLOWS_STRING.match(text, at) is None:
        return last, r'this " ends the string; write a " inside a string as \"'
    if (number := _spelled_number(text, at)) is not None:
        return at, f"{number} is no JSON number; write plain digits, such as 1000 or -0.5"
    for pattern, sentence in _SENTENCES:
        if (match := pattern.match(text, at)) is not None:
            return at, sentence.format(match[0][:MAX_EXCERPT_CHARACTERS], _WORDS.get(match[0].lower()))
    return at, next(sentence for begin, sentence in _EXPECTED if said.startswith(begin))


def _spelled_number(text: str, at: int) -> str | None:
    """Return the number in another spelling than JSON's that a place is in or begins."""
    begins = at
    while begins and at - begins < MAX_EXCERPT_CHARACTERS and text[begins - 1] in "0123456789.eE+-":
        begins -= 1
    match = _NUMBER.match(text, begins)
    is_odd = match is not None and match.end() > at and _JSON_NUMBER.fullmatch(match[0]) is None
    return match[0][:MAX_EXCERPT_CHARACTERS] if match is not None and is_odd else None


_DECODER: Final = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=int)
_ESCAPES: Final = {"\\u": "needs four hexadecimal digits", "\\'": "is not JSON; a ' needs no backslash"}
_CONTROLS: Final = {"\n": "line break", "\r": "line break", "\t": "tab"}
_WORDS: Final = {"true": "true", "false": "false"} | dict.fromkeys(("nil", "none", "null", "undefined"), "null")
_NUMBER: Final = re.compile(r"[-+]?\.?[0-9][\w.+-]*+%?(?!\s*:)")
_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_FOLLOWS_STRING: Final = re.compile(r'\Z|"(?>(?:[^"\\\n]|\\.)*)"(?:\s*[:,\]]|\s+"|\s*\Z)|[{\[]|//|/\*|#|[}\]]')
_SENTENCES: Final = [
    (re.compile(r"\Z"), "the text ends inside the value"),
    (re.compile(r"//|/\*|#"), "JSON has no comments; leave it out"),
    (
        re.compile(r"[-+]?(?:NaN|Infinity|inf)\b", re.IGNORECASE),
        "{0} is not JSON; write a number, or null if the schema allows it",
    ),
    (re.compile(r"(?:true|false|null|none|nil|undefined)\b", re.IGNORECASE), "{0} is not JSON; write {1}"),
    (re.compile("['‘’“”`«]"), "strings and keys stand in double quotes, not in {0}"),
    (re.compile(r"\.\.\.|…"), "nothing may be left out; write what {0} stands for"),
    (re.compile(r"[\w$][\w$.-]*(?=\s*:)"), 'the key {0} has to stand in double quotes, "{0}"'),
    (re.compile(r"[}\]]"), "{0} does not fit here; each bracket closes the last one that is open, behind a value"),
]
_EXPECTED: Final = [
    ("Expecting ','", "a comma is missing before this"),
    ("Expecting ':'", r'":" has to follow the key; write a " inside a string as \"'),
    ("Expecting property", "a key in double quotes has to stand here"),
    ("", "a JSON value has to stand here; a text stands in double quotes"),
]
