"""The one line that plays a vector alone."""

import shlex
from collections.abc import Sequence


def reproduce_line(options: Sequence[str], vector: str, seed: int, command: Sequence[str]) -> str:
    """Return a command for a shell."""
    return shlex.join(["ao", "conformance", "run", *options, "--only", vector, "--seed", str(seed), "--", *command])
