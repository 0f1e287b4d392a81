"""How a secret may be written: as it is, escaped by a JSON encoder, percent-encoded, or inside base64.

Encoders differ in what they escape, and JSON is put into JSON. So a form is a pattern, with every way to write each
character; what no encoder touches stands for itself.
"""

import re
from binascii import b2a_base64
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

_UNTOUCHED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
"""What neither JSON nor percent-encoding ever writes in another way (RFC 3986, 2.3)."""
_SHORT_ESCAPES: Final = {"\n": b"n", "\r": b"r", "\t": b"t", "\b": b"b", "\f": b"f"}
_MAX_BACKSLASHES: Final = 7
"""So many stand before a quotation mark that was escaped three times."""
_ESCAPE: Final = rb"\\{1,%d}" % _MAX_BACKSLASHES


@dataclass(frozen=True, slots=True)
class Form:
    """One way to find a secret in bytes."""

    pattern: bytes
    max_bytes: int
    """What the pattern matches is never longer."""
    landmark: bytes
    """Stands in whatever the pattern matches; empty where nothing does for certain."""
    is_literal: bool
    """True where the landmark is all there is to match."""


@dataclass(frozen=True, slots=True)
class _Piece:
    pattern: bytes
    max_bytes: int
    literal: bytes | None = None


def forms_of(secret: str) -> Iterator[Form]:
    """Yield the forms of a secret: its text, and its base64 at each of the three places where it can begin."""
    yield _form([piece for character, run in groupby(secret) for piece in _pieces(character, len(list(run)))])
    data = secret.encode(errors="surrogateescape")
    for offset in range(3):
        encoded = b2a_base64(bytes(offset) + data, newline=False).decode()
        # The characters at either end depend on what stands beside the secret.
        determined = encoded[-(-offset * 8 // 6) : (offset + len(data)) * 8 // 6]
        yield _form([_base64_piece(character) for character in determined])


def _form(pieces: list[_Piece]) -> Form:
    runs = [b"".join(piece.literal or b"" for piece in run) for _, run in groupby(pieces, lambda p: p.literal is None)]
    return Form(
        pattern=b"".join(piece.pattern for piece in pieces),
        max_bytes=sum(piece.max_bytes for piece in pieces),
        landmark=max(runs, key=len, default=b""),
        is_literal=len(runs) == 1 and runs[0] != b"",
    )


def _pieces(character: str, times: int) -> list[_Piece]:
    return [_backslashes(times)] if character == "\\" else [_piece(character)] * times


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
    # One pattern for the whole run: several in a row would be tried in every division of a longer run.
    doubled = rb"\\{%d,%d}" % (times, times * (_MAX_BACKSLASHES + 1))
    others = b"(?:%s|%s){%d}" % (_unicode_escape("\\"), _percent("\\"), times)
    return _Piece(b"(?:" + others + b"|" + doubled + b")", times * _max_bytes("\\"))


def _base64_piece(character: str) -> _Piece:
    urlsafe = {"+": b"-", "/": b"_"}.get(character, b"")
    return _piece(character, also=urlsafe)


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
