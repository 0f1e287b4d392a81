"""Read damaged JSON where the damage cannot change data, and say what was mended (SPEC 9.7).

A pushdown automaton again: no recursion, and it fails at a place, not for the whole text. It never invents a value,
never completes one that is cut off and never drops anything but comments. The spellings are those of JSON5 and Python;
what these two would read differently is refused.
"""

import json
import re
from dataclasses import dataclass
from math import isinf
from typing import Final

from ao_protocol.output.extraction.decoding import Inadmissible, decode_whole, is_same_json
from ao_protocol.output.extraction.outcome import MAX_DEPTH, MAX_INTEGER_DIGITS, JsonValue


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

    value: JsonValue
    end: int
    oddity: str = ""


@dataclass(frozen=True, slots=True)
class Mended:
    """A value, the place behind it, and everything that was read otherwise than it stands."""

    value: JsonValue
    end: int
    edits: tuple[Edit, ...]


def mend_value(text: str, start: int, limit: int) -> Mended:
    """Return the object or array whose bracket stands at `start` and that ends before `limit`.

    Raises:
        Unmendable: it has no certain reading; nothing before the place it names is worth another try.
    """
    if _ESCAPED.match(text, start, limit) is not None:
        return _unescape(text, start, limit)
    return _Mender(text, start, limit).read()


def mend_literal(text: str) -> Mended | None:
    """Return the truth value or null that is the whole text, whatever its capitals."""
    word = read_word(text, 0, len(text))
    if word is None or word.end != len(text):
        return None
    return Mended(word.value, word.end, (Edit(word.oddity, 0),))


def _unescape(text: str, start: int, limit: int) -> Mended:
    r"""Read text such as {\"a\": 1}: the inside of a JSON string, escaped once and without its quotes."""
    body = text[start:limit].rstrip()
    try:
        inner = decode_whole(f'"{_RAW_BLANK.sub(" ", body)}"')
        value = decode_whole(inner) if isinstance(inner, str) else inner
    except Inadmissible:
        raise Unmendable(limit) from None
    return Mended(value, start + len(body), (Edit("JSON that was escaped once", start),))


class _Container:
    """An object, array or tuple that is being read."""

    def __init__(self, bracket: str, at: int) -> None:
        self.bracket = bracket
        self.at = at
        self.members: dict[str, JsonValue] = {}
        self.items: list[JsonValue] = []
        self.key: str | None = None
        self.awaits_member = True
        self.last_was_container = False
        self.commas: list[int] = []

    @property
    def value(self) -> JsonValue:
        return self.members if self.bracket == "{" else self.items

    def put(self, value: JsonValue, at: int) -> None:
        self.awaits_member = False
        self.last_was_container = isinstance(value, dict | list)
        if self.key is None:
            self.items.append(value)
        elif self.key in self.members and not is_same_json(self.members[self.key], value):
            raise Unmendable(at)
        else:
            self.members[self.key] = value


class _Mender:
    def __init__(self, text: str, start: int, limit: int) -> None:
        self._text = text
        self._at = start
        self._limit = limit
        self._edits: list[Edit] = []
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
        return Mended(value, self._at, tuple(sorted(self._edits, key=lambda edit: edit.at)))

    def _next(self) -> str:
        return self._text[self._at] if self._at < self._limit else ""

    def _enter(self) -> None:
        if len(self._open) == MAX_DEPTH:
            raise Unmendable(self._at)
        self._open.append(_Container(self._next(), self._at))
        self._at += 1

    def _leave(self) -> JsonValue:
        container = self._open.pop()
        if container.awaits_member and container.commas:
            self._edits.append(Edit("a comma behind the last member", container.commas[-1]))
        if container.bracket == "(":
            if container.items and not container.commas:
                raise Unmendable(self._at)
            self._edits.append(Edit("a Python tuple", container.at))
        self._at += 1
        if self._open:
            self._open[-1].put(container.value, self._at)
        return container.value

    def _read_member(self, container: _Container) -> None:
        if container.bracket == "{":
            key = self._take(read_key(self._text, self._at, self._limit))
            container.key = str(key)
            self._skip_blanks()
            self._read_mark(_COLONS)
            self._skip_blanks()
        if self._next() in _CLOSERS:
            self._enter()
        else:
            container.put(self._take(read_scalar(self._text, self._at, self._limit)), self._at)

    def _read_separator(self, container: _Container) -> None:
        if self._next() in _COMMAS:
            container.commas.append(self._at)
            self._read_mark(_COMMAS)
        elif self._is_unmistakable_member(container):
            self._edits.append(Edit("a missing comma", self._at))
        else:
            raise Unmendable(self._at)
        container.awaits_member = True

    def _is_unmistakable_member(self, container: _Container) -> bool:
        """Tell whether what comes next can only be a member of its own, so that a comma must be missing."""
        if container.bracket == "{":
            return _QUOTED_KEY.match(self._text, self._at, self._limit) is not None
        return self._next() in _CLOSERS and container.last_was_container

    def _read_mark(self, marks: tuple[str, str]) -> None:
        if self._next() not in marks:
            raise Unmendable(self._at)
        if self._next() != marks[0]:
            self._edits.append(Edit("full-width punctuation", self._at))
        self._at += 1

    def _take(self, token: Token) -> JsonValue:
        if token.oddity:
            self._edits.append(Edit(token.oddity, self._at))
        self._at = token.end
        return token.value

    def _skip_blanks(self) -> None:
        while (gap := _GAP.match(self._text, self._at, self._limit)) is not None:
            if gap["endless"] is not None:
                raise Unmendable(self._limit)
            if gap["comment"] is not None:
                self._edits.append(Edit("a comment", self._at))
            elif gap["escape"] is not None:
                self._edits.append(Edit("an escaped line break between members", self._at))
            self._at = gap.end()


_CLOSERS: Final = {"{": "}", "[": "]", "(": ")"}
_COLONS: Final = (":", "：")
_COMMAS: Final = (",", "，")
_RAW_BLANK: Final = re.compile(r"[\t\r\n]")
_ESCAPED: Final = re.compile(r'[\[{](?:[\s\[{]|\\[nrt])*+\\"')
_QUOTED_KEY: Final = re.compile(r'"(?:[^"\\\n]|\\.)*+"\s*+:')
_GAP: Final = re.compile(
    r"[\s\ufeff\u200b]++"
    r"|(?P<comment>(?://|\#)[^\n]*+\n|/\*(?:[^*]|\*(?!/))*+\*/)"
    r"|(?P<endless>//|\#|/\*)"
    r"|(?P<escape>(?:\\[nrt])++(?!\w))"
)


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
