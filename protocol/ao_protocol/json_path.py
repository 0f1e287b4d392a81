"""Places in a document as text: `$.issues[0].severity`, and `$["a b"]` where a key is no plain word (SPEC 6.3)."""

import json
import re
from typing import Final

ROOT: Final = "$"
MAX_KEY_CHARACTERS: Final = 80

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def below(place: str, key: str | int) -> str:
    """Return the place one step further down: an index in brackets, a plain word after a dot, else quoted."""
    if isinstance(key, int):
        return f"{place}[{key}]"
    if len(key) > MAX_KEY_CHARACTERS:
        return f"{place}[{_quoted(key[:MAX_KEY_CHARACTERS] + '…')}]"
    return f"{place}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{place}[{_quoted(key)}]"


def _quoted(key: str) -> str:
    try:
        key.encode()
    except UnicodeEncodeError:  # half a surrogate pair cannot be written as it is
        return json.dumps(key)
    return json.dumps(key, ensure_ascii=False)
