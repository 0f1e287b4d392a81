"""What is known to differ today. Each row is expected to fail, so that it has to go when the difference goes."""

from typing import Final

GAPS: Final[dict[str, dict[str, str]]] = {}
"""By door: the fields that it ought to take, and does not."""

KNOWN: Final[dict[tuple[str, str], str]] = {}
"""By door and request: what else is wrong."""

UNCOPIED: Final[dict[tuple[str, str], str]] = {}
"""By copy and request: runs that cannot be copied."""

COPIES: Final[dict[tuple[str, str], str]] = {}
"""By copy and column: what a copy loses."""
