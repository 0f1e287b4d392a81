"""What executors have said of themselves, so that not every run has to ask again."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ao_lifeline.lifelines import Lifelines
from ao_protocol.documents import Description
from ao_runner.discovery.describe import describe
from ao_runner.discovery.locate import Executor
from ao_runner.processes.cleanup_notes import NOT_NOTED, Belongings

MAX_AGE_SECONDS: Final = 300.0
"""An executor may change without its own file, by an update of what it imports."""


class Identity(NamedTuple):
    """Which file it was that was asked."""

    path: str
    device: int
    inode: int
    size: int
    modified: int


@dataclass(slots=True)
class Descriptions:
    """Remembers descriptions for a while, each for the very file and environment that it was given for."""

    lines: Lifelines | None = None
    belongings: Belongings = NOT_NOTED
    clock: Callable[[], float] = time.monotonic
    _known: dict[tuple[Identity, frozenset[tuple[str, str]]], tuple[float, Description]] = field(default_factory=dict)

    async def describe(self, executor: Executor, environment: Mapping[str, str]) -> Description:
        """Return what an executor says; raises as `describe` does. Failures are not remembered."""
        key = (identity_of(executor), frozenset(environment.items()))
        known = self._known.get(key)
        if known is not None and self.clock() - known[0] < MAX_AGE_SECONDS:
            return known[1]
        description = await describe(executor, environment, self.lines, self.belongings)
        self._known[key] = (self.clock(), description)
        return description


def identity_of(executor: Executor) -> Identity:
    """Return which file an executor is now.

    Raises:
        OSError: it is not there.
    """
    status = os.stat(executor.path)  # noqa: PTH116  # the fields are what is wanted
    return Identity(str(executor.path), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
