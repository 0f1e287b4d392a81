"""Bytes to lines, lines to JSON objects, and back (SPEC 3).

A line is UTF-8 text that ends with LF; a CR before the LF is removed. By the rules of I-JSON (RFC 7493), duplicate
keys, integers outside +-(2^53-1), NaN and infinities are refused. More than 64 levels are refused, too. This module
does not interpret the objects. It also has the limits of the identifiers that each event has.
"""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NoReturn

from ao_protocol.json_words import shown

if TYPE_CHECKING:
    from pydantic import JsonValue  # an executor imports this before its first event: no slow import


MAX_DEPTH: Final = 64
MAX_SAFE_INTEGER: Final = 2**53 - 1

_BRACKET_OR_STRING: Final = re.compile(r'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"?|[\[\]{}]', re.DOTALL)
_LONG_NUMBER: Final = b":" + b"0" * len(str(MAX_SAFE_INTEGER))
_AS_LONG_NUMBERS: Final = bytes.maketrans(b"123456789,[-", b"000000000:::")
"""A translation table to the form of `_LONG_NUMBER`: `:` for bytes before a number, `0` for every digit."""
_KINDS: Final = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")


class NotIJson(ValueError):
    """A line that is not one JSON object that every receiver reads the same way. `reason` is the fault."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Ambiguous(NotIJson):
    """A JSON text that receivers may read differently: a duplicate key, a number out of range, or too many levels."""


def decode_object(line: bytes) -> "dict[str, JsonValue]":
    """Return the JSON object on a line. A byte-order mark before it is accepted (AOX-023).

    `1.0` remains a float; for integer fields `ao_protocol.wire.Integer` converts it to 1 (AOX-033). An escaped lone
    surrogate becomes U+FFFD (AOX-032).

    Args:
        line: The line in UTF-8, with or without white space around the object.

    Returns:
        The object. No object in it has a duplicate key.

    Raises:
        NotIJson: The line has a fault of SPEC 3. The message names the fault, and its place if possible.
    """
    # This runs for every event, so cheap steps are inline.
    try:
        text = line.removeprefix(BOM_UTF8).decode().strip(" \t\r\n")
        if text.count("[") + text.count("{") > MAX_DEPTH:
            refuse_depth(text)
        document, end = _decode(text)
    except UnicodeDecodeError as error:
        raise NotIJson(f"byte {error.start} is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise NotIJson(f"not JSON: {error.msg} at character {error.pos}") from error
    if end < len(text):
        raise NotIJson(f"not JSON: Extra data at character {end}")
    if not isinstance(document, dict):
        raise NotIJson(f"expected a JSON object, found {_KINDS.get(type(document), 'null')}")
    return _without_lone_surrogates(document) if SURROGATE_ESCAPE.search(text) else document


def refuse_what_is_not_read(written: bytes) -> None:
    """Check that receivers accept the integers and the depth of a compact line from an encoder.

    This takes 200 ns for a typical event: the line is parsed only if a number seems to be as long as an unsafe integer.

    Raises:
        NotIJson: An integer is outside +-(2^53-1), or the line has more than 64 levels.
    """
    if written.count(b"[") + written.count(b"{") > MAX_DEPTH:
        refuse_depth(written.decode())
    if _LONG_NUMBER in written.translate(_AS_LONG_NUMBERS):
        json.loads(written, parse_int=_safe_integer)


def _without_lone_surrogates(document: "dict[str, JsonValue]") -> "dict[str, JsonValue]":
    text = json.dumps(document, ensure_ascii=False)
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return document if whole == text else decode_object(whole.encode())


def refuse_depth(text: str, max_levels: int = MAX_DEPTH) -> None:
    """Check how deep the arrays and objects of a JSON text are nested, in time that is linear in its length.

    Raises:
        NotIJson: The text has more than `max_levels` levels.
    """
    depth = 0
    for match in _BRACKET_OR_STRING.finditer(text):
        mark = match[0]
        if mark in "[{":
            depth += 1
            if depth > max_levels:
                raise Ambiguous(f"nested deeper than {max_levels} levels at character {match.start()}")
        elif mark in "]}":
            depth -= 1


def _object_without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise Ambiguous(f"duplicate key {shown(key)}")
            seen.add(key)
    return document


def _safe_integer(digits: str) -> int:
    if len(digits) > 17 or abs(number := int(digits)) > MAX_SAFE_INTEGER:
        raise Ambiguous(f"integer {digits[:40]} is outside +-{MAX_SAFE_INTEGER}")
    return number


def _finite_float(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise Ambiguous(f"number {digits[:40]} is too large")
    return number


def _no_constant(name: str) -> NoReturn:
    raise NotIJson(f"{name} is not JSON")


_decode: Final = json.JSONDecoder(
    object_pairs_hook=_object_without_duplicates,
    parse_int=_safe_integer,
    parse_float=_finite_float,
    parse_constant=_no_constant,
).raw_decode
"""The decoder. It is created once, because its creation takes as long as decoding a typical event."""


MAX_INVOCATION_BYTES: Final = 16 * 1024 * 1024
MAX_EVENT_BYTES: Final = 1024 * 1024

_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class LineTooLong(ValueError):
    """A line is longer than the limit. `may_be_object` is whether it begins with `{`."""

    def __init__(self, limit_bytes: int, *, may_be_object: bool = False) -> None:
        super().__init__(f"a line is longer than {limit_bytes} bytes")
        self.limit_bytes = limit_bytes
        self.may_be_object = may_be_object


class EndedMidLine(ValueError):
    """The stream ended after bytes without a line end. `tail` has these bytes."""

    def __init__(self, tail: bytes) -> None:
        super().__init__(f"the stream ended in the middle of a line, after {tail[-80:]!r}")
        self.tail = tail


class LineSplitter:
    """Splits chunks of bytes, cut anywhere, into lines without their line ends.

    Memory is bounded by the limit and one chunk. Time is linear in the bytes, however they are cut.

    Args:
        max_line_bytes: The maximum length of a line in bytes, without its line end.
    """

    def __init__(self, max_line_bytes: int) -> None:
        self.max_line_bytes = max_line_bytes
        self.begun = bytearray()
        """The bytes of the line whose end has not arrived."""
        self.is_skipping = False
        """Whether the rest of a line over the limit is being dropped."""

    def feed(self, chunk: bytes) -> list[bytes | LineTooLong]:
        """Return the lines that a chunk completes.

        A line over the limit is returned once, as a `LineTooLong`, when it exceeds the limit. Its bytes are dropped up
        to its end, and the lines after it follow as usual. The caller decides whether to continue.

        Args:
            chunk: The next bytes of the stream.

        Returns:
            The lines in order, without LF and without a CR before it; empty if no line is complete.
        """
        whole = chunk.split(b"\n")
        rest = whole.pop()
        lines = self._lines_of(whole, may_end_in_cr=b"\r" in chunk) if whole else []
        if self.is_skipping:
            return lines
        self.begun += rest
        # The last byte may be the CR of a line end whose LF has not arrived.
        if len(self.begun) - self.begun.endswith(b"\r") > self.max_line_bytes:
            lines.append(LineTooLong(self.max_line_bytes, may_be_object=self.begun.startswith(b"{")))
            self.begun.clear()
            self.is_skipping = True
        return lines

    def end(self) -> None:
        """End the stream.

        Raises:
            EndedMidLine: The last line has no line end.
        """
        tail = bytes(self.begun)
        self.begun.clear()
        if tail:
            raise EndedMidLine(tail)

    def _lines_of(self, whole: list[bytes], *, may_end_in_cr: bool) -> list[bytes | LineTooLong]:
        if self.is_skipping:
            self.is_skipping = False
            del whole[0]
        elif self.begun:
            may_end_in_cr = may_end_in_cr or self.begun.endswith(b"\r")
            whole[0] = bytes(self.begun) + whole[0]
            self.begun.clear()
        if may_end_in_cr:
            whole = [line.removesuffix(b"\r") for line in whole]
        limit = self.max_line_bytes
        return [
            line if len(line) <= limit else LineTooLong(limit, may_be_object=line.startswith(b"{")) for line in whole
        ]


def encode_line(document: Mapping[str, object]) -> bytes:
    r"""Return a document as one JSON line: compact, in UTF-8, with LF, and acceptable for every receiver (AOX-030).

    A lone surrogate becomes U+FFFD (AOX-032), because UTF-8 cannot encode it and I-JSON forbids it.

    Args:
        document: A JSON object, with JSON values.

    Returns:
        The line with its LF.

    Raises:
        NotIJson: The document has an integer outside +-(2^53-1), or more than 64 levels.
        ValueError: The document contains NaN or an infinity, or refers to itself.
        TypeError: The document contains a value that is not JSON.
    """
    try:
        text = _encode(document)
    except RecursionError as error:
        raise NotIJson(f"nested deeper than {MAX_DEPTH} levels") from error
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    refuse_what_is_not_read(data)
    return data + b"\n"


MAX_IDENTIFIER_CHARACTERS: Final = 512
MAX_IDENTIFIER_BYTES: Final = 1024
"""The maximum size as JSON in UTF-8, between the quotes.

An event has two identifiers, and `max_event_bytes` is at least 4,096.
"""
_MOST_BYTES_OF_A_CHARACTER: Final = len(r"\u001f")


def is_identifier(value: object) -> bool:
    """Return whether a value is a valid identifier of a run or a session."""
    return type(value) is str and 0 < len(value) <= MAX_IDENTIFIER_CHARACTERS and fits_in_events(value)


def fits_in_events(name: str) -> bool:
    """Return whether an identifier has at most `MAX_IDENTIFIER_BYTES`.

    This is called for every key of an event. Most identifiers are short and need no encoding.
    """
    if len(name) * _MOST_BYTES_OF_A_CHARACTER <= MAX_IDENTIFIER_BYTES:
        return True
    written = json.dumps(name, ensure_ascii=False).encode(errors="surrogatepass")
    return len(written) - len('""') <= MAX_IDENTIFIER_BYTES
