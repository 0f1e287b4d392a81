"""The directory that a run works in (SPEC 4.1)."""

import os
from pathlib import Path


def find_project_dir(said: str | None) -> Path | None:
    """Return the directory that an invocation names, or the working directory where it names none.

    None where what it names is no directory (AOX-045), for whatever reason: `Path.is_dir` raises for too long a name.
    """
    path = Path(said or Path.cwd())
    return path if os.path.isdir(path) else None  # noqa: PTH112
