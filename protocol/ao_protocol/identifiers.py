"""The maximum length of identifiers: `run_id`, `session_id` and `executor_session_id` (SPEC 4.1)."""

import json
from typing import Final

MAX_IDENTIFIER_CHARACTERS: Final = 512
MAX_IDENTIFIER_BYTES: Final = 1024
"""The maximum size as JSON in UTF-8, between the quotes.

An event has two identifiers, and `max_event_bytes` is at least 4,096.
"""
_MOST_BYTES_OF_A_CHARACTER: Final = len(r"\u001f")


def is_identifier(value: object) -> bool:
    """Return whether a value is a valid identifier of a run or a session."""
    return type(value) is str and 0 < len(value) <= MAX_IDENTIFIER_CHARACTERS and fits_in_events(value)


def fits_in_events(name: str) -> bool:
    """Return whether an identifier has at most `MAX_IDENTIFIER_BYTES`.

    This is called for every key of an event. Most identifiers are short and need no encoding.
    """
    if len(name) * _MOST_BYTES_OF_A_CHARACTER <= MAX_IDENTIFIER_BYTES:
        return True
    written = json.dumps(name, ensure_ascii=False).encode(errors="surrogatepass")
    return len(written) - len('""') <= MAX_IDENTIFIER_BYTES
