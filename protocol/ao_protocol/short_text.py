"""Texts cut for people: every text that a message, a table, a terminal or a page shows in part is cut here."""

from typing import Final, NamedTuple

MARK: Final = "…"
"""Stands where a text is cut."""


def shorten(text: str, most: int) -> str:
    """Return a text, or its first `most` characters and the mark if it has more."""
    return text if len(text) <= most else f"{text[:most]}{MARK}"


def shorten_line(text: str, most: int) -> str:
    """Return a text on one line, with one blank for each run of white space, shortened like `shorten`."""
    return shorten(" ".join(text.split()), most)


def shorten_with_length(text: str, most: int) -> str:
    """Return a text, or its first `most` characters, the mark, and how many characters the whole has."""
    return text if len(text) <= most else f"{shorten(text, most)} ({len(text):,} characters)"


def shorten_middle(text: str, most: int) -> str:
    """Return a text, or its begin and its end, half of `most` characters each, and how many are left out between."""
    half = most // 2
    left_out = len(text) - 2 * half
    return text if len(text) <= most else f"{text[:half]} {MARK} ({left_out} characters left out) {MARK} {text[-half:]}"


def keep_end(text: str, most: int) -> str:
    """Return a text, or the mark and its last `most` characters if it has more."""
    return text if len(text) <= most else f"{MARK}{text[-most:]}"


class Excerpt(NamedTuple):
    """The begin of a text, and the number of characters that it lacks."""

    text: str
    missing: int = 0


def begin_of_text(text: str, most: int, most_lines: int) -> Excerpt:
    """Return the begin of a text: at most so many characters and lines, each ended by a line feed."""
    text = text.replace("\r\n", "\n")
    kept = "\n".join(text[:most].split("\n")[:most_lines])
    return Excerpt(kept, len(text) - len(kept))
