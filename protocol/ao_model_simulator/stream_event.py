"""The events of a streamed answer, seen by where its characters are: a fault comes after so many of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Marker:
    """An event that carries no characters of the content. A fault in the content comes before one that closes it."""

    payload: bytes
    closes_content: bool = False


@dataclass(frozen=True, slots=True)
class Delta:
    """An event that carries a piece of the content, and how it is written. One that is not divisible comes whole."""

    piece: str
    encode: Callable[[str], bytes]
    is_divisible: bool = True


StreamEvent = Marker | Delta


def split_text(text: str, chunk_chars: int) -> Iterator[str]:
    """Yield the pieces of a text; none when it is empty."""
    for start in range(0, len(text), chunk_chars):
        yield text[start : start + chunk_chars]
