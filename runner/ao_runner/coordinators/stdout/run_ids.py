"""The ids of runs that stood on earlier lines, in bounded memory. Pure."""

from dataclasses import dataclass, field
from typing import Final

REMEMBERED: Final = 100_000
"""So many of the latest ids are known for certain, and at most twice as many are kept: some 20 MB."""


@dataclass(slots=True)
class RunIds:
    """Knows the latest ids, and those of all runs that are not over.

    An id that was forgotten and comes again begins another attempt at the run: `generation` has grown since, which is
    to be added to the number of the attempt. So it is too when the lines are piped in again after a restart.
    """

    remembered: int = REMEMBERED
    generation: int = 0
    _latest: set[str] = field(default_factory=set)
    _before: set[str] = field(default_factory=set)
    _open: set[str] = field(default_factory=set)

    def add(self, run_id: str) -> bool:
        """Take the id of a run that begins; false where it is known already."""
        if run_id in self._latest or run_id in self._before or run_id in self._open:
            return False
        if len(self._latest) >= self.remembered:
            self._before, self._latest = self._latest, set()
            self.generation += 1
        self._latest.add(run_id)
        self._open.add(run_id)
        return True

    def end(self, run_id: str) -> None:
        """Hear that a run is over."""
        self._open.discard(run_id)
