r"""What looks like a place in a file: `src/a.ts:12`, `C:\x.ts:12-20`, `a.ts#L10`, in backticks or not.

Every place has a slash, a dot before a letter or a colon before a digit. Where these are written as references, such as
`&#47;`, there is none: so the writer marks what is not meant as a place.
"""

import re
from typing import Final

from ao_protocol.output.agent_response.references import reference_to

MAX_PLACE_CHARACTERS: Final = 400

_LIKE_A_PLACE: Final = re.compile(
    r"[`*(\[\"'“‘<]*"
    r"(?:[^\s/\\]*[/\\]\S*|[^\s:]*\.[A-Za-z][A-Za-z0-9]{0,9}[\"'”’`]?(?:[:#(]\S*)?|[^\s:]+:L?[0-9]\S*)[,;]?"
)
_BESIDE_A_PLACE: Final = re.compile(r"(?:[(\[]?lines?|and|&|[(\[]?L?[0-9]+(?:[-–:]L?[0-9]+)?)[,;)`*\]]*", re.IGNORECASE)
_PATH_AND_LINE: Final = re.compile(
    r"(?P<path>(?:[A-Za-z]:(?=[/\\]))?[^\s:*?\"<>|`#]+)(?P<line>[:#]L?[0-9]+(?:[-–,:]L?[0-9]+)*)?"
)
_EXTENSION: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,9}")
_HINT: Final = re.compile(r"[/\\]|\.(?=[A-Za-z])|:(?=L?[0-9])")
_CLOSING_OF: Final = {"**": "**", "`": "`", "(": ")", "[": "]", "<": ">", '"': '"', "'": "'", "“": "”", "‘": "’"}


def may_hold_a_place(text: str) -> bool:
    """Tell at little cost whether a word of the text can be a place at all."""
    return _HINT.search(text) is not None


def is_place(text: str) -> bool:
    """Tell whether a text that stands by itself, between two separators, is a place, or several."""
    if len(text) > MAX_PLACE_CHARACTERS or not may_hold_a_place(text):
        return False
    words = text.split()
    return (
        bool(words)
        and _LIKE_A_PLACE.fullmatch(words[0]) is not None
        and all(_LIKE_A_PLACE.fullmatch(word) or _BESIDE_A_PLACE.fullmatch(word) for word in words[1:])
    )


def is_surely_place(text: str) -> bool:
    """Tell whether a text is a place wherever it stands: `and/or`, `Node.js` and `localhost:80` are not surely one."""
    if not is_place(text):
        return False
    found = _PATH_AND_LINE.fullmatch(unframed(text.split(maxsplit=1)[0].rstrip(",;")))
    if found is None:
        return False
    path, has_line = found["path"], found["line"] is not None
    stem, _, extension = path.rpartition(".")
    has_extension = bool(stem) and _EXTENSION.fullmatch(extension) is not None
    is_below = "/" in path or "\\" in path
    if has_line:
        return has_extension or is_below or path.lower().endswith("file")
    return has_extension and is_below


def unframed(text: str) -> str:
    """Return a text without the backticks, brackets or quotation marks around all of it."""
    opening = "**" if text.startswith("**") else text[:1]
    closing = _CLOSING_OF.get(opening)
    if closing is None or not text.endswith(closing):
        return text
    inner = text[len(opening) : -len(closing)]
    return inner if inner and opening not in inner and closing not in inner else text


def without_places(text: str) -> str:
    """Return a text in which nothing looks like a place, by references that are read as what they stand for."""
    return _HINT.sub(lambda found: reference_to(found[0]), text)
