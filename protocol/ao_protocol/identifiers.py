"""How long the names of runs and sessions may be (SPEC 4.1)."""

from typing import Final

MAX_IDENTIFIER_CHARACTERS: Final = 512
"""Of `run_id`, `session_id` and `executor_session_id`. Every event, which is limited itself, carries the first two."""
