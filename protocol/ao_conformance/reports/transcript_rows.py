"""A transcript as numbered rows, and functions that make hostile text harmless for terminals and documents."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from ao_conformance.verdict import TranscriptEntry
from ao_protocol.short_text import shorten_with_length

_INVISIBLE: Final = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f"  # controls except tab and line feed
    "\\u00ad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb"  # no width, or text direction
    "\\ud800-\\udfff\\ufdd0-\\ufdef\\ufffe\\uffff\\U000e0000-\\U000e007f]"  # not characters, or not visible
)
_SURROGATE: Final = re.compile("[\\ud800-\\udfff]")
CHANNELS: Final[Mapping[str, str]] = {"stdin": "in", "stdout": "out", "stderr": "err"}
"""The names of channels in a narrow column; any other keeps its name."""
STDERR_FIRST: Final = 3
STDERR_LAST: Final = 2
"""How many lines of the beginning and of the end of a long stderr are shown, if not all fit."""


def visible(text: str) -> str:
    r"""Return text with an escape such as `\x1b` or `\u202e` for each character that is invisible or is no character.

    Tabs and line feeds stay. The result is valid in XML 1.0 and can be encoded as UTF-8.
    """
    return _INVISIBLE.sub(_escape, text)


def encodable(text: str) -> str:
    r"""Return text with an escape such as `\ud800` for each lone surrogate; everything else stays."""
    return _SURROGATE.sub(_escape, text)


def one_line(text: str, limit: int) -> str:
    r"""Return visible text on one line, with line feeds and tabs as `\n` and `\t`, cut after `limit` characters."""
    return shorten_with_length(visible(text).replace("\n", "\\n").replace("\t", "\\t"), limit)


def code_spans(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the pieces of a sentence of the specification, each with whether it is in backticks.

    If the backticks are not in pairs, the whole text is one plain piece.
    """
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        yield False, text
        return
    for number, piece in enumerate(pieces):
        if piece:
            yield number % 2 == 1, piece


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a transcript, for readers."""

    seconds: float
    channel: str
    text: str
    line: int | None = None
    """The line of stdout of the judged process, from 1; None on any other channel."""
    marked: bool = False
    """Whether the finding is about this row."""
    left_out: int = 0
    """The number of rows that were left out just before it."""


def transcript_rows(transcript: tuple[TranscriptEntry, ...], marked_line: int | None = None) -> list[Row]:
    """Return a row for each line of each entry. The n-th stdout entry of the judged process is line n."""
    rows = []
    line = 0
    for entry in transcript:
        is_line = entry.channel == "stdout" and not entry.process
        line += is_line
        channel = CHANNELS.get(entry.channel, entry.channel)
        first = Row(
            seconds=entry.seconds,
            channel=f"earlier {channel}" if entry.process else channel,
            text="",
            line=line if is_line else None,
            marked=is_line and line == marked_line,
        )
        rows += [replace(first, text=text) for text in entry.text.removesuffix("\n").split("\n")]
    return rows


def excerpt(rows: list[Row], size: int) -> list[Row]:
    """Return at most `size` rows (2 at least): those around the marked one, or the last ones, and always the very last.

    The middle of a long stderr is left out first. Each row holds the number of rows that were left out before it.
    """
    if len(rows) <= size:
        return rows
    telling = _without_middles_of_stderr(rows)
    if len(telling) > size:
        last = len(telling) - 1
        marked = next((number for number, at in enumerate(telling) if rows[at].marked), last)
        begin = max(0, min(marked - (size - 1) // 2, len(telling) - size))
        telling = [*telling[begin : begin + size - 1], telling[last]]
    before = [-1, *telling]
    return [replace(rows[at], left_out=at - last_shown - 1) for last_shown, at in zip(before, telling, strict=False)]


def _without_middles_of_stderr(rows: list[Row]) -> list[int]:
    """Return the indexes of the most informative rows: some languages name an error first, others last."""
    telling: list[int] = []
    for is_stderr, group in groupby(range(len(rows)), key=lambda at: rows[at].channel == CHANNELS["stderr"]):
        numbers = list(group)
        is_long = is_stderr and len(numbers) > STDERR_FIRST + STDERR_LAST
        telling += [*numbers[:STDERR_FIRST], *numbers[-STDERR_LAST:]] if is_long else numbers
    return telling
