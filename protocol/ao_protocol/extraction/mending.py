"""Repair of damaged JSON where the damage cannot change data, with a list of the repairs (SPEC 9.7).

The reader is a pushdown automaton without recursion. It fails at a place, not for the whole text. It never invents a
value, never completes a truncated one, and drops nothing but comments. It accepts the spellings of JSON5 and Python,
except those that the two read differently.
"""

import json
import re
from dataclasses import dataclass, field
from math import isinf
from typing import Final, TypeVar

from ao_protocol.extraction.strict_json import (
    MAX_DEPTH,
    MAX_INTEGER_DIGITS,
    JsonValue,
    NoJsonFound,
    decode_whole,
    is_same_json,
)

_Value = TypeVar("_Value")


@dataclass(eq=False)
class Unmendable(Exception):
    """A place where the text has no reading, or more than one."""

    at: int


@dataclass(frozen=True, slots=True)
class Mended:
    """A repaired value, the position after it, and the repairs with their places."""

    value: JsonValue
    end: int
    edits: tuple[tuple[str, int], ...]


def mend_value(text: str, start: int, limit: int) -> Mended:
    """Return the object or array whose bracket is at `start` and that ends before `limit`.

    Raises:
        Unmendable: The value has no unique reading. No attempt before the place `at` is useful.
    """
    if _ESCAPED.match(text, start, limit) is not None:
        return _unescape(text, start, limit)
    return _Mender(text, start, limit).read()


def mend_literal(text: str) -> Mended | None:
    """Return the boolean or null that is the whole text, in upper or lower case; otherwise None."""
    word = _WORD.fullmatch(text)
    return None if word is None else Mended(_WORDS[text.lower()], len(text), ((f"{text} for a JSON literal", 0),))


def _unescape(text: str, start: int, limit: int) -> Mended:
    r"""Read a text such as {\"a\": 1}: the content of a JSON string, escaped once and without its quotes."""
    body = text[start:limit].rstrip()
    try:
        inner = decode_whole(f'"{_RAW_BLANK.sub(" ", body)}"')
        value = decode_whole(inner) if isinstance(inner, str) else inner
    except NoJsonFound:
        raise Unmendable(limit) from None
    return Mended(value, start + len(body), (("JSON that was escaped once", start),))


@dataclass(slots=True)
class _Container:
    """An object, array or tuple that is being read."""

    bracket: str
    at: int
    members: dict[str, JsonValue] = field(default_factory=dict)
    items: list[JsonValue] = field(default_factory=list)
    key: str = ""
    awaits_member: bool = True
    last_was_container: bool = False
    last_comma: int | None = None

    def put(self, value: JsonValue, at: int) -> None:
        self.awaits_member = False
        self.last_was_container = isinstance(value, dict | list)
        if self.bracket != "{":
            self.items.append(value)
        elif self.key in self.members and not is_same_json(self.members[self.key], value):
            raise Unmendable(at)
        else:
            self.members[self.key] = value


class _Mender:
    """Reads from `start` on. Every method reads at the current position, or raises `Unmendable`."""

    def __init__(self, text: str, start: int, limit: int) -> None:
        self._text = text
        self._at = start
        self._limit = limit
        self._edits: list[tuple[str, int]] = []
        self._open: list[_Container] = []

    def read(self) -> Mended:
        self._enter()
        value: JsonValue = None
        while self._open:
            self._skip_blanks()
            innermost = self._open[-1]
            if self._next() == _CLOSERS[innermost.bracket]:
                value = self._leave()
            elif innermost.awaits_member:
                self._read_member(innermost)
            else:
                self._read_separator(innermost)
        return Mended(value, self._at, tuple(sorted(self._edits, key=lambda edit: edit[1])))

    def _next(self) -> str:
        return self._text[self._at] if self._at < self._limit else ""

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return pattern.match(self._text, self._at, self._limit)

    def _note(self, what: str, at: int | None = None) -> None:
        self._edits.append((what, self._at if at is None else at))

    def _enter(self) -> None:
        if len(self._open) == MAX_DEPTH:
            raise Unmendable(self._at)
        self._open.append(_Container(self._next(), self._at))
        self._at += 1

    def _leave(self) -> JsonValue:
        container = self._open.pop()
        if container.awaits_member and container.last_comma is not None:
            self._note("a comma behind the last member", container.last_comma)
        if container.bracket == "(":
            if container.items and container.last_comma is None:
                raise Unmendable(self._at)
            self._note("a Python tuple", container.at)
        self._at += 1
        value: JsonValue = container.members if container.bracket == "{" else container.items
        if self._open:
            self._open[-1].put(value, self._at)
        return value

    def _read_member(self, container: _Container) -> None:
        if container.bracket == "{":
            container.key = self._read_string() if self._next() in _QUOTES else self._read_bare_key()
            self._skip_blanks()
            self._read_mark(_COLONS)
            self._skip_blanks()
        if self._next() in _CLOSERS:
            self._enter()
        else:
            container.put(self._read_scalar(), self._at)

    def _read_separator(self, container: _Container) -> None:
        if self._next() in _COMMAS:
            container.last_comma = self._at
            self._read_mark(_COMMAS)
        else:
            is_container_behind_container = container.last_was_container and self._next() in _CLOSERS
            if not (self._match(_QUOTED_KEY) if container.bracket == "{" else is_container_behind_container):
                raise Unmendable(self._at)
            self._note("a missing comma")
        container.awaits_member = True

    def _read_mark(self, marks: tuple[str, str]) -> None:
        if self._next() not in marks:
            raise Unmendable(self._at)
        if self._next() != marks[0]:
            self._note("full-width punctuation")
        self._at += 1

    def _skip_blanks(self) -> None:
        while (gap := self._match(_GAP)) is not None:
            if gap["endless"] is not None:
                raise Unmendable(self._limit)
            if gap["comment"] is not None:
                self._note("a comment")
            elif gap["escape"] is not None:
                self._note("an escaped line break between members")
            self._at = gap.end()

    def _read_bare_key(self) -> str:
        match = self._match(_BARE_KEY)
        if match is None or match[0] in {"True", "False", "None"}:  # Python and JavaScript read them as different keys
            raise Unmendable(self._at)
        return self._take(match, match[0], "a key without quotes")

    def _read_scalar(self) -> JsonValue:
        if self._next() in _QUOTES:
            return self._read_string()
        if (match := self._match(_WORD)) is not None:
            word = match[0]
            return self._take(match, _WORDS[word.lower()], "" if word in _WORDS else f"{word} for a JSON literal")
        match = self._match(_NUMBER)
        if match is None or len(match[0]) > MAX_INTEGER_DIGITS:
            raise Unmendable(self._at)
        spelling = match[0].replace("_", "")
        number: float
        if match["hex"] or (match["integer"] and not match["rest"]):
            number = int(spelling, 16 if match["hex"] else 10)
        elif isinf(number := float(spelling)):
            raise Unmendable(self._at)
        oddity = "" if _JSON_NUMBER.fullmatch(match[0]) else "a number in another language's spelling"
        return self._take(match, number, oddity)

    def _read_string(self) -> str:
        """Read a string in double, single or typographic quotes, with raw line breaks."""
        match = self._match(_STRING)
        if match is None or (not match["body"] and self._text[match.end() : match.end() + 1] in _QUOTES):
            raise Unmendable(self._at)
        oddity = "" if match["quote"] == '"' else "quotes other than double quotes"
        body = match["body"]
        if _PLAIN.fullmatch(body) is not None:
            return self._take(match, body, oddity)
        escapes = [escape[1] for escape in _ESCAPE.finditer(body)]
        odd = [escape for escape in escapes if escape[0] not in _JSON_ESCAPES or escape == "u"]
        if not _have_one_reading(escapes, odd, match["quote"]):
            raise Unmendable(self._at)
        if odd:
            oddity = "escapes that JSON does not know"
        if _CONTROL.search(body) is not None:
            oddity = "a raw control character in a string"
        value: str = json.JSONDecoder(strict=False).decode(f'"{_ESCAPE_OR_QUOTE.sub(_as_json, body)}"')
        return self._take(match, value, oddity)

    def _take(self, match: re.Match[str], value: _Value, oddity: str) -> _Value:
        if oddity:
            self._note(oddity)
        self._at = match.end()
        return value


def _have_one_reading(escapes: list[str], odd: list[str], quote: str) -> bool:
    r"""Return whether all readers read the escapes alike.

    In "\d+" the backslash can only be literal. In "C:\Users\new" neither \n nor \U is meant as an escape. '\d' is
    different in Python and JavaScript. An escaped apostrophe is the same in both.
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
    r"(?P<quote>[\"'“])(?P<body>(?<=\")(?>(?:[^\"\\]|\\.)*)(?=\")|(?<=')(?>(?:[^'\\]|\\.)*)(?=')|(?<=“)[^“”\\]*+(?=”))[\"'”]",
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
    r"|(?P<integer>0|[1-9][0-9]*+(?>(?:_[0-9]++)*))(?P<rest>(?:\.[0-9]*+)?(?:[eE][-+]?[0-9]++)?)"
    r"|\.[0-9]++(?:[eE][-+]?[0-9]++)?)(?![\w.$+-])"
)
_CLOSERS: Final = {"{": "}", "[": "]", "(": ")"}
_COLONS: Final = (":", "：")
_COMMAS: Final = (",", "，")
_RAW_BLANK: Final = re.compile(r"[\t\r\n]")
_ESCAPED: Final = re.compile(r'[\[{](?>(?:[\s\[{]|\\[nrt])*)\\"')
_QUOTED_KEY: Final = re.compile(r'"(?>(?:[^"\\\n]|\\.)*)"\s*+:')
_GAP: Final = re.compile(
    r"[\s\ufeff\u200b]++"
    r"|(?P<comment>(?://|\#)[^\n]*+\n|/\*(?>(?:[^*]|\*(?!/))*)\*/)"
    r"|(?P<endless>//|\#|/\*)"
    r"|(?P<escape>(?>(?:\\[nrt])+)(?!\w))"
)
