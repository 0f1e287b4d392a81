"""Hostile text made harmless and visible: what an executable wrote may steer no terminal and break no document."""

import re
from collections.abc import Iterator
from typing import Final

_INVISIBLE: Final = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f"  # controls but tab and line feed
    "\\u00ad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb"  # no width, or turns text round
    "\\ud800-\\udfff\\ufdd0-\\ufdef\\ufffe\\uffff\\U000e0000-\\U000e007f]"  # no characters, or none that shows
)
_SURROGATE: Final = re.compile("[\\ud800-\\udfff]")


def visible(text: str) -> str:
    r"""Return text with an escape such as `\x1b` or `\u202e` for each character that does not show or is no character.

    Tabs and line feeds stay. What comes out may stand in XML 1.0 and can be encoded as UTF-8.
    """
    return _INVISIBLE.sub(_escape, text)


def encodable(text: str) -> str:
    r"""Return text with an escape such as `\ud800` for each lone surrogate; everything else stays."""
    return _SURROGATE.sub(_escape, text)


def cut(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text, and how many it has if there are more."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def one_line(text: str, limit: int) -> str:
    r"""Return visible text on one line, with `\n` and `\t` for what would leave it, cut after `limit` characters."""
    return cut(visible(text).replace("\n", "\\n").replace("\t", "\\t"), limit)


def code_spans(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the pieces of a sentence of the specification, each with whether it stands in backticks.

    Where the backticks do not pair, the whole text is one plain piece.
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
