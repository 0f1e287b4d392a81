"""How much an answer may ask of its reader. A model's text is input from outside like any other."""

from typing import Final

MAX_CHARACTERS: Final = 16 * 1024 * 1024
"""The size of the largest invocation; an answer that is larger still is refused unread."""

MAX_SEARCHED_CHARACTERS: Final = 1024 * 1024
"""A longer answer is JSON from its first character to its last, or refused: a search takes microseconds a character."""

MAX_DEPTH: Final = 200
"""Levels of containers. The C decoder recurses once a level, so the cap is checked before it is called.

No value is deeper; up to two levels less are always read (the innermost are counted together).
"""

MAX_INTEGER_DIGITS: Final = 1000
"""CPython refuses integers above 4300 digits with a plain ValueError, or takes quadratic time over them."""

MAX_CANDIDATES: Final = 20_000
"""Each value found costs memory; an answer with more of them is an attack or a data dump."""

MAX_BREAKS: Final = 100_000
"""Each place where a container breaks costs a step that no bulk operation can save."""

MAX_UNWRAPPED: Final = 3
"""How often a JSON string that holds JSON is opened."""
