"""Read one string, number, word or gap of damaged JSON, where only one reading of it is possible.

The spellings are those of JSON5 and Python. What these two would read differently is refused.
"""

import json
import re
from dataclasses import dataclass
from math import isinf
from typing import TYPE_CHECKING, Final

from ao_protocol.output.extraction.limits import MAX_INTEGER_DIGITS

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(eq=False)
class Unmendable(Exception):
    """At this place the text cannot be read, or not in one way only."""

    at: int

    def __str__(self) -> str:
        return f"no certain reading at character {self.at}"


@dataclass(frozen=True, slots=True)
class Edit:
    """What was read otherwise than it stands, and the character where it stands."""

    what: str
    at: int


@dataclass(frozen=True, slots=True)
class Token:
    """A value that was read, the place behind it, and what is odd about its spelling, or nothing."""

    value: "JsonValue"
    end: int
    oddity: str = ""


def read_scalar(text: str, at: int, limit: int) -> Token:
    """Return the string, number, truth value or null at `at`.

    Raises:
        Unmendable: there is none, or what there is has more than one reading.
    """
    if text[at : at + 1] in _QUOTES:
        return read_string(text, at, limit)
    return read_word(text, at, limit) or _read_number(text, at, limit)


def read_string(text: str, at: int, limit: int) -> Token:
    """Return the string at `at`: in double, single or typographic quotes, raw line breaks included.

    Raises:
        Unmendable: it does not end, or has escapes with more than one reading.
    """
    match = _STRING.match(text, at, limit)
    if match is None or (not match["body"] and text[match.end() : match.end() + 1] in _QUOTES):
        raise Unmendable(at)
    oddity = "" if match["quote"] == '"' else "quotes other than double quotes"
    body = match["body"]
    if _PLAIN.fullmatch(body) is not None:
        return Token(body, match.end(), oddity)
    escapes = [escape[1] for escape in _ESCAPE.finditer(body)]
    odd = [escape for escape in escapes if escape[0] not in _JSON_ESCAPES or escape == "u"]
    if not _have_one_reading(escapes, odd, match["quote"]):
        raise Unmendable(at)
    if odd:
        oddity = "escapes that JSON does not know"
    if _CONTROL.search(body) is not None:
        oddity = "a raw control character in a string"
    value: str = json.JSONDecoder(strict=False).decode(f'"{_ESCAPE_OR_QUOTE.sub(_as_json, body)}"')
    return Token(value, match.end(), oddity)


def read_word(text: str, at: int, limit: int) -> Token | None:
    """Return true, false or null in any capitals, and Python's None."""
    match = _WORD.match(text, at, limit)
    if match is None:
        return None
    word = match[0]
    return Token(_WORDS[word.lower()], match.end(), "" if word in _WORDS else f"{word} for a JSON literal")


def read_key(text: str, at: int, limit: int) -> Token:
    """Return the key at `at`, quoted or bare.

    Raises:
        Unmendable: there is none, or it is a word that Python and JavaScript turn into different keys.
    """
    if text[at : at + 1] in _QUOTES:
        return read_string(text, at, limit)
    match = _BARE_KEY.match(text, at, limit)
    if match is None or match[0] in {"True", "False", "None"}:
        raise Unmendable(at)
    return Token(match[0], match.end(), "a key without quotes")


def _read_number(text: str, at: int, limit: int) -> Token:
    match = _NUMBER.match(text, at, limit)
    if match is None or len(match[0]) > MAX_INTEGER_DIGITS:
        raise Unmendable(at)
    spelling = match[0].replace("_", "")
    oddity = "" if _JSON_NUMBER.fullmatch(match[0]) else "a number in another language's spelling"
    if match["hex"]:
        return Token(int(spelling, 16), match.end(), oddity)
    if match["integer"] and not match["rest"]:
        return Token(int(spelling), match.end(), oddity)
    number = float(spelling)
    if isinf(number):
        raise Unmendable(at)
    return Token(number, match.end(), oddity)


def _have_one_reading(escapes: list[str], odd: list[str], quote: str) -> bool:
    r"""Tell whether everybody reads the escapes alike.

    In "\d+" the backslash can only be meant; in "C:\Users\new" the \n was meant as little as the \U, and in
    '\d' Python and JavaScript differ. An escaped apostrophe is one in both.
    """
    lone = [escape for escape in odd if escape != "'"]
    if not lone:
        return True
    if quote != '"' or any(_MEANS_SOMETHING.fullmatch(escape) for escape in lone):
        return False
    return all(escape in _NEUTRAL_ESCAPES or escape in lone for escape in escapes)


def _as_json(match: re.Match[str]) -> str:
    escape = match[1]
    if escape is None:
        return '\\"'
    if escape == "'":
        return "'"
    return match[0] if escape[0] in _JSON_ESCAPES else f"\\{match[0]}"


_QUOTES: Final = ('"', "'", "“")
_STRING: Final = re.compile(
    r"(?P<quote>[\"'“])(?P<body>(?<=\")(?:[^\"\\]|\\.)*+(?=\")|(?<=')(?:[^'\\]|\\.)*+(?=')|(?<=“)[^“”\\]*+(?=”))[\"'”]",
    re.DOTALL,
)
_PLAIN: Final = re.compile(r"[^\"\\\x00-\x1f]*+")
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPE_OR_QUOTE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)|\"", re.DOTALL)
_JSON_ESCAPES: Final = frozenset('"\\/bfnrtu')
_NEUTRAL_ESCAPES: Final = frozenset("\"/'")
_MEANS_SOMETHING: Final = re.compile(r"[0-9xvaUNue\n\r]")
_WORDS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None, "none": None}
_WORD: Final = re.compile(r"(?:true|false|null|none)(?![\w.$+-])", re.IGNORECASE)
_BARE_KEY: Final = re.compile(r"(?:[^\W\d]|\$)[\w$.-]*+|(?:0|[1-9][0-9]*+)(?:\.[0-9]*[1-9])?(?![\w.])")
_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_NUMBER: Final = re.compile(
    r"[-+]?(?:(?P<hex>0[xX][0-9a-fA-F]+)"
    r"|(?P<integer>0|[1-9][0-9]*+(?:_[0-9]++)*+)(?P<rest>(?:\.[0-9]*+)?(?:[eE][-+]?[0-9]++)?)"
    r"|\.[0-9]++(?:[eE][-+]?[0-9]++)?)(?![\w.$+-])"
)
