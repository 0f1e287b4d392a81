"""Removal of secrets from event lines, texts, and streams that are cut anywhere (AOX-263).

A secret may occur as it is, JSON-escaped, percent-encoded, or in base64. Encoders differ in the characters that they
escape, and JSON may be nested in JSON. So each form of a secret is a pattern with all spellings of each character; a
character that no encoder changes is literal. Other encodings, such as hexadecimal, base64 with line ends, or reversed
text, are not found: redaction protects against accidents, not against an executor that discloses a secret on purpose.
"""

import json
import re
from binascii import b2a_base64
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from itertools import groupby
from typing import Any, Final, NamedTuple

from ao_protocol.errors import ErrorType

MASK: Final = "***"
SHORTEST_SECRET: Final = 8
"""The minimum length of a secret in characters. A shorter value would be found in ordinary words."""

MOST_LINES: Final = 200
"""How many lines of a secret are also removed where they occur alone."""

_MASK: Final = MASK.encode()
_STRING: Final = re.compile(rb'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"')
_ESCAPED_ASCII: Final = re.compile(rb"\\u00[2-7]")
_UNTOUCHED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
"""Characters that neither JSON nor percent-encoding changes (RFC 3986, 2.3)."""
_SHORT_ESCAPES: Final = {"\n": b"n", "\r": b"r", "\t": b"t", "\b": b"b", "\f": b"f"}
_MAX_BACKSLASHES: Final = 7
"""The number of backslashes before a quotation mark that was escaped three times."""
_ESCAPE: Final = rb"\\{1,%d}" % _MAX_BACKSLASHES
_STOP_REASONS: Final = frozenset(
    {"end_turn", "max_tokens", "model_context_window_exceeded", "refusal", "stop_sequence", "completed"}
)
"""The values of `stop_reason` that section 5 names; the list is open."""


class Redactor:
    """Removes the values of secrets from bytes, texts and streams. `***` replaces each of them.

    `too_short` lists the names of values with fewer than 8 characters, which are not removed. An empty value is
    ignored.

    Args:
        secrets: The values by their names, such as names of environment variables.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self.too_short: list[str] = sorted(name for name, value in secrets.items() if 0 < len(value) < SHORTEST_SECRET)
        parts = {part for value in secrets.values() for part in (value, *_lines_of(value))}
        values = {part for part in parts if len(part) >= SHORTEST_SECRET}
        self.values: tuple[str, ...] = tuple(sorted(values, key=lambda value: (-len(value), value)))
        """The values that are removed, the longest first."""
        self._forms = tuple(form for value in self.values for form in forms_of(value))

    def may_be_in(self, block: bytes) -> bool:
        """Return whether a block may contain a secret in any form. False is certain.

        Blocks of 32 KiB and more are the most efficient, because the search then skips most of the bytes.

        Args:
            block: Bytes of one line or of many lines.

        Returns:
            False if the block certainly contains no secret.
        """
        for form in self._forms:
            if form.landmark in block and (form.is_literal or re.search(form.pattern, block)):
                return True
        return bool(self._forms) and b"\\u00" in block and _ESCAPED_ASCII.search(block) is not None

    def line(self, line: bytes) -> bytes:
        """Return a line of JSON without the secrets in its strings.

        Strings are decoded for the search, so no escape is cut in two. A string without a secret keeps its bytes. A
        string that is a word of the protocol or a timestamp is not changed, so that an event remains an event.

        Args:
            line: A line of JSON in UTF-8.

        Returns:
            The redacted line; the same object if nothing was removed.
        """
        if not self.may_be_in(line):
            return line
        redacted = _STRING.sub(self._string, line)
        return line if redacted == line else redacted

    def text(self, text: str) -> str:
        """Return a text without the secrets.

        Args:
            text: Any text.

        Returns:
            The text with `***` in place of each secret.
        """
        return self.data(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")

    def data(self, data: bytes) -> bytes:
        """Return bytes without the secrets.

        Args:
            data: Complete bytes, such as those of a file.

        Returns:
            The bytes with `***` in place of each secret.
        """
        return self._pattern.sub(_MASK, data) if self.may_be_in(data) else data

    def settled_length(self, text: str) -> int:
        """Return how much of a growing text can be shown, because text that follows cannot make it part of a secret.

        Only exact copies of a secret count.

        Args:
            text: The text so far, or what of it is not shown yet.

        Returns:
            The number of characters before the first one that may belong to a secret that is not complete.
        """
        settled = min((_overlap_begin(text, value) for value in self.values), default=len(text))
        while (begin := self._begin_of_secret_around(text, settled)) is not None:
            settled = begin
        return settled

    def _begin_of_secret_around(self, text: str, cut: int) -> int | None:
        """Return where a secret begins that lies on both sides of a cut."""
        found = (text.find(value, max(0, cut - len(value) + 1), cut + len(value) - 1) for value in self.values)
        return next((begin for begin in found if begin >= 0), None)

    def stream(self) -> "RedactedStream":
        """Return a redactor for a stream that arrives in chunks."""
        return RedactedStream(self._pattern if self._forms else None, self.longest_bytes)

    @property
    def longest_bytes(self) -> int:
        """The maximum length of any form of a secret, in bytes; 0 without secrets."""
        return max((form.max_bytes for form in self._forms), default=0)

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        return re.compile(b"|".join(form.pattern for form in self._forms))

    def _string(self, match: re.Match[bytes]) -> bytes:
        written = match[0]
        if not self.may_be_in(written):
            return written
        text = json.loads(written)
        redacted = self.text(text)
        if redacted == text or text in protocol_words() or _time_pattern().fullmatch(text):
            return written
        try:
            return json.dumps(redacted, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return json.dumps(redacted).encode()


def _overlap_begin(text: str, value: str) -> int:
    """Return where the end of a text is the beginning of a value, without its end; else the length of the text."""
    sizes = range(min(len(value) - 1, len(text)), 0, -1)
    return len(text) - next((size for size in sizes if text.endswith(value[:size])), 0)


def _lines_of(value: str) -> list[str]:
    """Return the lines of a secret of several lines, such as a PEM key: they often occur alone or indented."""
    lines = value.splitlines()
    return [line.strip() for line in lines[:MOST_LINES]] if len(lines) > 1 else []


class RedactedStream:
    """Removes secrets from a stream. The output does not depend on how the bytes are cut into chunks.

    It holds back at most as many bytes as the longest form of a secret has, less one.
    """

    def __init__(self, pattern: re.Pattern[bytes] | None, max_bytes: int) -> None:
        self._pattern = pattern
        self._max_bytes = max_bytes
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Accept the next bytes, and return the bytes that can be shown."""
        if self._pattern is None:
            return chunk
        self._held += chunk
        return self._let_out(len(self._held) - self._max_bytes + 1)

    def end(self) -> bytes:
        """End the stream, and return the remaining bytes."""
        return self._let_out(len(self._held))

    def _let_out(self, until: int) -> bytes:
        if until <= 0 or self._pattern is None:
            return b""
        shown, position = [], 0
        for match in self._pattern.finditer(self._held):
            if match.start() >= until:
                break
            shown += [self._held[position : match.start()], _MASK]
            position = match.end()
        until = max(until, position)
        shown.append(self._held[position:until])
        self._held = self._held[until:]
        return b"".join(shown)


NO_SECRETS: Final = Redactor({})


@cache
def protocol_words() -> frozenset[str]:
    """Return the words of events: names of fields, and values that the schemas of events list.

    They are never removed as secrets, because the line would no longer be an event.
    """
    from ao_protocol.published import load_schema  # few runs have secrets

    words = {*map(str, ErrorType), *_STOP_REASONS}
    waiting: list[Any] = [load_schema("event"), load_schema("error")]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            words.update(part.get("properties", ()))
            words.update(value for value in [part.get("const"), *part.get("enum", ())] if isinstance(value, str))
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return frozenset(words)


@cache
def _time_pattern() -> re.Pattern[str]:
    from ao_protocol.published import load_schema

    events: Any = load_schema("event")["$defs"]
    return re.compile(events["vendor_event"]["properties"]["timestamp"]["pattern"])


class SecretForm(NamedTuple):
    """One way to find a secret in bytes."""

    pattern: bytes
    max_bytes: int
    """The maximum length of a match."""
    landmark: bytes
    """Bytes that are in every match; empty if no bytes are certain."""
    is_literal: bool
    """Whether the landmark is the whole match."""


class _Piece(NamedTuple):
    pattern: bytes
    max_bytes: int
    literal: bytes | None = None


def forms_of(secret: str) -> Iterator[SecretForm]:
    """Yield the forms of a secret: its text, and its base64 at each of the three offsets where it can begin."""
    runs = ((character, len(list(run))) for character, run in groupby(secret))
    yield _form(
        [
            piece
            for character, times in runs
            for piece in ([_backslashes(times)] if character == "\\" else [_piece(character)] * times)
        ]
    )
    data = secret.encode(errors="surrogateescape")
    for offset in range(3):
        encoded = b2a_base64(bytes(offset) + data, newline=False).decode()
        # The characters at either end depend on the bytes beside the secret.
        determined = encoded[-(-offset * 8 // 6) : (offset + len(data)) * 8 // 6]
        urlsafe = {"+": b"-", "/": b"_"}
        yield _form([_piece(character, also=urlsafe.get(character, b"")) for character in determined])


def _form(pieces: list[_Piece]) -> SecretForm:
    runs = [b"".join(piece.literal or b"" for piece in run) for _, run in groupby(pieces, lambda p: p.literal is None)]
    return SecretForm(
        pattern=b"".join(piece.pattern for piece in pieces),
        max_bytes=sum(piece.max_bytes for piece in pieces),
        landmark=max(runs, key=len, default=b""),
        is_literal=len(runs) == 1 and runs[0] != b"",
    )


def _piece(character: str, also: bytes = b"") -> _Piece:
    if character in _UNTOUCHED:
        return _Piece(re.escape(character.encode()), 1, character.encode())
    ways = [(rb"\\{0,%d}" % _MAX_BACKSLASHES) + re.escape(character.encode(errors="surrogateescape"))]
    ways.append(_unicode_escape(character))
    ways.append(_percent(character))
    if character in _SHORT_ESCAPES:
        ways.append(_ESCAPE + _SHORT_ESCAPES[character])
    if character == " ":
        ways.append(rb"\+")
    if also:
        ways.append(also)
    return _Piece(b"(?:" + b"|".join(ways) + b")", _max_bytes(character))


def _backslashes(times: int) -> _Piece:
    # One pattern for the whole run: several in a row would match every division of a longer run.
    doubled = rb"\\{%d,%d}" % (times, times * (_MAX_BACKSLASHES + 1))
    others = b"(?:%s|%s){%d}" % (_unicode_escape("\\"), _percent("\\"), times)
    return _Piece(b"(?:" + others + b"|" + doubled + b")", times * _max_bytes("\\"))


def _unicode_escape(character: str) -> bytes:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return b"".join(_ESCAPE + b"u" + _any_case(units[at : at + 4]) for at in range(0, len(units), 4))


def _percent(character: str) -> bytes:
    return b"".join(b"%" + _any_case(f"{byte:02x}") for byte in character.encode(errors="surrogateescape"))


def _any_case(digits: str) -> bytes:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits).encode()


def _max_bytes(character: str) -> int:
    utf8_bytes = len(character.encode(errors="surrogateescape"))
    utf16_units = len(character.encode("utf-16-be", "surrogatepass")) // 2
    return max(_MAX_BACKSLASHES + utf8_bytes, 3 * utf8_bytes, (_MAX_BACKSLASHES + 5) * utf16_units)
