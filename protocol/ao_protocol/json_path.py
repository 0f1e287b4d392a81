"""Paths in a document: `$.issues[0].severity`, and `$["a b"]` for a key that is not a plain word (SPEC 6.3)."""

import json
import re
from collections.abc import Iterable
from functools import reduce
from typing import Final

from ao_protocol.short_text import shorten

ROOT: Final = "$"
MAX_KEY_CHARACTERS: Final = 80

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def below(place: str, key: str | int) -> str:
    """Return the path of an item or a member of the value at a path.

    An index becomes `[0]`, a plain word `.name`, any other key `["any key"]`. A key is cut after 80 characters.
    """
    if isinstance(key, int):
        return f"{place}[{key}]"
    key = shorten(key, MAX_KEY_CHARACTERS)
    return f"{place}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{place}[{_quoted(key)}]"


def path_to(steps: Iterable[str | int]) -> str:
    """Return the path that steps lead to from the root."""
    return reduce(below, steps, ROOT)


def _quoted(key: str) -> str:
    try:
        key.encode()
    except UnicodeEncodeError:  # UTF-8 cannot encode a lone surrogate
        return json.dumps(key)
    return json.dumps(key, ensure_ascii=False)
