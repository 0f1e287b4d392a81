"""The base of the runner's errors: the request cannot be fulfilled, and the message says what to do."""

from typing import ClassVar, Final

EXIT_INTERRUPTED: Final = 130
"""The exit code of a command that Ctrl-C ended."""


class RunnerError(Exception):
    """The runner refused or could not do something. Its message is for people and ends with what to do next."""

    exit_code: ClassVar[int] = 2
    """The exit code of the command; by default, it means that nothing was run."""
