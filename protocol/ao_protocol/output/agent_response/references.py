"""Character references such as `&#8212;`: how the Markdown form writes what would be read as its own marks."""

import re
from typing import Final

_REFERENCE: Final = re.compile(r"&#([0-9]{1,7});")
_LIKE_A_REFERENCE: Final = re.compile(r"&(?=#[0-9]{1,7};)")


def reference_to(character: str) -> str:
    """Return the reference that is read as the character."""
    return f"&#{ord(character)};"


def without_references(text: str) -> str:
    """Return a text in which nothing reads as a reference; to be done before references are put in."""
    return _LIKE_A_REFERENCE.sub("&#38;", text)


def resolve_references(text: str) -> str:
    """Return the text that was meant. What refers to no character stays as it is."""
    return _REFERENCE.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    code = int(match[1])
    return chr(code) if 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else match[0]
