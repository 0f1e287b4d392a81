"""The base of what the runner raises: somebody asked for what cannot be done, and the sentence says what to do."""

from typing import ClassVar, Final

EXIT_INTERRUPTED: Final = 130
"""What a command exits with that Ctrl-C has ended."""


class RunnerError(Exception):
    """The runner refused or could not do something. Its text is one for people and ends with what to do next."""

    exit_code: ClassVar[int] = 2
    """What a command exits with: by default that nothing was run."""
