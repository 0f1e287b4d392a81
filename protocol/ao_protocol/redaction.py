"""Secrets out of what is shown and kept: event lines, texts, and streams that are cut anywhere.

What is taken out are the forms of `ao_protocol.secret_forms`. Another encoding (hexadecimal, base64 with line ends in
it, a text reversed) passes: this guards against accidents, not against an executor that means to tell.
"""

import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Final

from ao_protocol.secret_forms import forms_of

MASK: Final = "***"
SHORTEST_SECRET: Final = 8
"""A shorter value would be found in ordinary words."""

MOST_LINES: Final = 200
"""So many lines of a secret are taken out also where they stand alone."""

_MASK: Final = MASK.encode()
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_ESCAPED_ASCII: Final = re.compile(rb"\\u00[2-7]")


class Redactor:
    """Takes the values of secrets, given by name, out of whatever it is shown.

    `too_short` names those whose value has less than `SHORTEST_SECRET` characters: they are not taken out. One that is
    empty is none.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self.too_short: list[str] = sorted(name for name, value in secrets.items() if 0 < len(value) < SHORTEST_SECRET)
        parts = {part for value in secrets.values() for part in (value, *_lines_of(value))}
        values = {part for part in parts if len(part) >= SHORTEST_SECRET}
        self.values: tuple[str, ...] = tuple(sorted(values, key=lambda value: (-len(value), value)))
        """What is taken out, the longest first."""
        self._forms = tuple(form for value in self.values for form in forms_of(value))

    def may_be_in(self, block: bytes) -> bool:
        """Return False where no secret stands in a block, of one line or of many, in whatever form.

        Blocks of 32 KiB and more are the cheapest: the search then skips most of the bytes.
        """
        for form in self._forms:
            if form.landmark in block and (form.is_literal or re.search(form.pattern, block)):
                return True
        return bool(self._forms) and b"\\u00" in block and _ESCAPED_ASCII.search(block) is not None

    def line(self, line: bytes) -> bytes:
        """Return a line of JSON with the secrets taken out of its strings; without any, the very same object.

        Strings are looked at decoded, so that an escape is never cut in two; where there is nothing in them they
        keep their bytes. A string that is a word of the protocol or a time stays, so that an event stays one.
        """
        if not self.may_be_in(line):
            return line
        redacted = _STRING.sub(self._string, line)
        return line if redacted == line else redacted

    def text(self, text: str) -> str:
        """Return a text with the secrets taken out."""
        return self.data(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")

    def data(self, data: bytes) -> bytes:
        """Return whole bytes, such as those of a file, with the secrets taken out."""
        return self._pattern.sub(_MASK, data) if self.may_be_in(data) else data

    def stream(self) -> "RedactedStream":
        """Return what takes the secrets out of a stream that comes in chunks."""
        return RedactedStream(self._pattern if self._forms else None, self.longest_bytes)

    @property
    def longest_bytes(self) -> int:
        """How many bytes the longest form of a secret has at most."""
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
        if redacted == text or _belongs_to_the_protocol(text):
            return written
        try:
            return json.dumps(redacted, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return json.dumps(redacted).encode()


def _belongs_to_the_protocol(text: str) -> bool:
    from ao_protocol.protocol_words import PROTOCOL_WORDS, is_time  # models, which an executor may not have imported

    return text in PROTOCOL_WORDS or is_time(text) is not None


def _lines_of(value: str) -> list[str]:
    """Return the lines of a secret that has several, such as a key in PEM: they are often shown singly or indented."""
    lines = value.splitlines()
    return [line.strip() for line in lines[:MOST_LINES]] if len(lines) > 1 else []


class RedactedStream:
    """Feed it chunks, then the end. What it gives is the same however the bytes were cut.

    It holds back as many bytes as the longest form of a secret has, less one.
    """

    def __init__(self, pattern: re.Pattern[bytes] | None, max_bytes: int) -> None:
        self._pattern = pattern
        self._max_bytes = max_bytes
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes and return what can be shown."""
        if self._pattern is None:
            return chunk
        self._held += chunk
        return self._let_out(len(self._held) - self._max_bytes + 1)

    def end(self) -> bytes:
        """Say that no more bytes come, and return the rest."""
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
