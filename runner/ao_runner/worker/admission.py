"""May another run begin here? It needs a slot, memory, descriptors, room on the disk and in the outbox."""

import resource
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DESCRIPTORS_PER_RUN: Final = 8
"""Three pipes, the line to its lifeline, and some for the moment of its start."""
SPARE_DESCRIPTORS: Final = 32
"""For the store, the outbox, connections and logs."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be left for a run to begin."""

    memory_bytes: int = 256 * 1024 * 1024
    disk_bytes: int = 256 * 1024 * 1024


def raise_descriptor_limit() -> None:
    """Allow this process as many descriptors as it may allow itself."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def lacking(folder: Path, needs: Needs, runs: int, more: int = 1) -> str | None:
    """Return what `more` runs lack beside `runs` others, in a sentence; None where they may begin."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = SPARE_DESCRIPTORS + (runs + more) * DESCRIPTORS_PER_RUN
    if allowed != resource.RLIM_INFINITY and wanted > allowed:
        return f"descriptors: {runs + more} runs need {wanted}, the limit is {allowed} (ulimit -n)"
    free = free_memory_bytes()
    if free is not None and free < needs.memory_bytes * more:
        return f"memory: {free >> 20} MiB are free, {needs.memory_bytes * more >> 20} MiB are needed"
    try:
        left = shutil.disk_usage(folder).free
    except OSError as error:
        return f"disk: {folder} cannot be looked at: {error.strerror}"
    if left < needs.disk_bytes:
        return f"disk: {left >> 20} MiB are free below {folder}, {needs.disk_bytes >> 20} MiB are needed"
    return None


def free_memory_bytes() -> int | None:
    """Return how much memory programs can still get on this machine; None where nobody says."""
    if sys.platform != "linux":
        return None
    try:
        lines = Path("/proc/meminfo").read_bytes().splitlines()
    except OSError:
        return None  # all descriptors are in use at this moment
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(b"MemAvailable:")), None)
