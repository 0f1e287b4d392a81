"""The one line that plays a vector alone."""

import shlex
from collections.abc import Sequence

from ao_conformance.runner_suite.vectors import RunnerVector


def reproduce_line(vector: RunnerVector, command: Sequence[str] = (), resume: Sequence[str] = ()) -> str:
    """Return a command for a shell; without a command of its own it tests `ao run`."""
    long = ["--long"] if vector.takes_long else []
    resumed = ["--resume", shlex.join(resume)] if vector.resumes and resume else []
    behind = ["--", *command] if command else []
    return shlex.join(["ao", "conformance", "runner", *long, *resumed, "--only", vector.id, *behind])
