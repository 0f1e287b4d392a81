"""Bytes to lines and lines to bytes (SPEC 3).

A line is UTF-8 text that ends with LF; a CR before it is dropped. Nothing here knows what a line says.
"""

import json
from collections.abc import Mapping
from typing import Final

from ao_protocol.ijson import MAX_DEPTH, NotIJson, refuse_what_is_not_read

MAX_INVOCATION_BYTES: Final = 16 * 1024 * 1024
MAX_EVENT_BYTES: Final = 1024 * 1024

_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class FramingError(ValueError):
    """The bytes do not form lines as the protocol wants them."""


class LineTooLong(FramingError):
    """More bytes came without a line end than a line may have."""

    def __init__(self, limit_bytes: int, *, may_be_object: bool = False) -> None:
        super().__init__(limit_bytes)
        self.limit_bytes = limit_bytes
        self.may_be_object = may_be_object

    def __str__(self) -> str:
        return f"a line is longer than {self.limit_bytes} bytes"


class EndedMidLine(FramingError):
    """The stream ended after bytes that no line end followed."""

    def __init__(self, tail: bytes) -> None:
        super().__init__(tail)
        self.tail = tail

    def __str__(self) -> str:
        return f"the stream ended in the middle of a line, after {self.tail[-80:]!r}"


class LineSplitter:
    """Feed it chunks cut anywhere; it gives whole lines without their ends.

    Memory is bounded by the limit and one chunk. Time is linear in the bytes, however they are cut.
    """

    def __init__(self, max_line_bytes: int) -> None:
        self.max_line_bytes = max_line_bytes
        self.begun = bytearray()
        """The line whose end has not come yet."""
        self.is_skipping = False
        """Whether the rest of a line over the limit is being dropped."""

    def feed(self, chunk: bytes) -> list[bytes | LineTooLong]:
        """Return the lines that `chunk` completes.

        A line over the limit comes once, as the error that it is, when the limit is passed; its bytes are
        dropped up to its end, and the lines after it follow as usual. The caller decides whether to go on.

        Args:
            chunk: The next bytes, as they came.

        Returns:
            The lines in their order; none while no line is complete.
        """
        whole = chunk.split(b"\n")
        rest = whole.pop()
        lines = self._lines_of(whole, may_end_in_cr=b"\r" in chunk) if whole else []
        if self.is_skipping:
            return lines
        self.begun += rest
        # The last byte may be the CR of a line end that is still to come.
        if len(self.begun) - self.begun.endswith(b"\r") > self.max_line_bytes:
            lines.append(LineTooLong(self.max_line_bytes, may_be_object=self.begun.startswith(b"{")))
            self.begun.clear()
            self.is_skipping = True
        return lines

    def end(self) -> None:
        """Say that no more bytes come.

        Raises:
            EndedMidLine: the last line has no end.
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
    r"""Return one JSON line for a document: compact, UTF-8, LF-terminated, and one that every receiver reads (AOX-030).

    A lone surrogate, which UTF-8 cannot carry and I-JSON forbids, becomes U+FFFD.

    Args:
        document: An object of JSON values.

    Returns:
        The line with its LF.

    Raises:
        NotIJson: the document holds an integer outside +-(2^53-1), or more than 64 levels.
        ValueError: the document holds NaN or an infinity, or refers to itself.
        TypeError: the document holds something that is not JSON.
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
