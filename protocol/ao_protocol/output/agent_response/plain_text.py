"""The text that a response may hold: what all three forms can carry without a change.

XML 1.0 has no way to write most control characters, and it reads every line end as a line feed. So every text has one
canonical form, which is made where it comes in: line ends are line feeds, a character that XML cannot hold (a control
character, half a surrogate pair, U+FFFE, U+FFFF) is U+FFFD, and no blank stands at either end. Blank is what XML and
JSON call so: space, tab, line feed.
"""

import json
import re
from typing import Final

from pydantic import JsonValue

BLANKS: Final = " \t\n"

_UNWRITABLE: Final = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPED_IN_JSON: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufffe\uffff]")


def readable(text: str) -> str:
    """Return a text with line feeds for line ends and U+FFFD for what XML cannot hold."""
    if text.isprintable():
        return text
    return _UNWRITABLE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def canonical_text(value: object) -> object:
    """Return the canonical form of a text; another value as it is, for the model to refuse."""
    return readable(value).strip(BLANKS) if isinstance(value, str) else value


def canonical_line(value: object) -> object:
    """Return the canonical form of a text of one line: its lines are joined by spaces."""
    if not isinstance(value, str):
        return value
    if value.isprintable():
        return value.strip(BLANKS)
    lines = (line.strip(BLANKS) for line in readable(value).split("\n"))
    return " ".join(line for line in lines if line)


def canonical_optional_text(value: object) -> object:
    """Return the canonical form of a text that may be missing; a blank one is missing."""
    return canonical_text(value) or None if isinstance(value, str) else value


def json_text(value: JsonValue) -> str:
    """Return indented JSON in which every character can stand in XML and in Markdown."""
    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    return _ESCAPED_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
