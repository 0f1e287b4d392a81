"""Read damaged JSON where the damage cannot change data, and say what was mended.

A pushdown automaton again: no recursion, and it fails at a place, not for the whole text. It never invents a
value, never completes one that is cut off and never drops anything but comments.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ao_protocol.output.extraction.decode import Inadmissible, decode_whole
from ao_protocol.output.extraction.limits import MAX_DEPTH
from ao_protocol.output.extraction.mend_tokens import (
    Edit,
    Token,
    Unmendable,
    read_key,
    read_scalar,
    read_word,
)
from ao_protocol.output.extraction.same import is_same_json

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Mended:
    """A value, the place behind it, and everything that was read otherwise than it stands."""

    value: "JsonValue"
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
    def value(self) -> "JsonValue":
        return self.members if self.bracket == "{" else self.items

    def put(self, value: "JsonValue", at: int) -> None:
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

    def _leave(self) -> "JsonValue":
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

    def _take(self, token: Token) -> "JsonValue":
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
