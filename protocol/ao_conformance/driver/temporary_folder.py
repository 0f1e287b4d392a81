"""A folder for one play, gone afterwards; what the played command has mounted in it is left, and named."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ao_lifeline.removal import remove_tree


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Make a folder that only this user can read; what cannot be removed at the end is named on stderr."""
    folder = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
    try:
        yield folder
    finally:
        for left in remove_tree(str(folder)):
            sys.stderr.write(f"ao: a temporary file cannot be removed: {left}; remove it by hand\n")
