"""An open file of this process that the disk does not give back for a while."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DESCRIPTORS = Path("/proc/self/fd")


@contextmanager
def no_reads(folder: Path) -> Iterator[None]:
    """Let everything that is open in a folder be written only."""
    opened = [(int(link.name), link.readlink()) for link in DESCRIPTORS.iterdir() if link.is_file()]
    kept = {number: os.dup(number) for number, path in opened if folder in path.parents and path.name != "lock"}
    assert kept
    for number, path in opened:
        if number in kept:
            blind = os.open(path, os.O_WRONLY)
            os.dup2(blind, number, inheritable=False)
            os.close(blind)
    try:
        yield
    finally:
        for number, whole in kept.items():
            os.dup2(whole, number, inheritable=False)
            os.close(whole)
