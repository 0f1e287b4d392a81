"""The values that were found in the text, and the places where reading them leniently may be tried."""

from dataclasses import dataclass

from ao_protocol.output.extraction.limits import MAX_BREAKS, MAX_CANDIDATES
from ao_protocol.output.extraction.outcome import NoJsonFound, Reason
from ao_protocol.output.extraction.regions import Region


@dataclass(frozen=True, slots=True)
class Candidate:
    """A span that may be the answer, or breaks at its end, and the innermost region it stands in."""

    start: int
    end: int
    region: Region | None

    @property
    def is_excluded(self) -> bool:
        """Tell whether it stands where no answer is given."""
        return self.region is not None and self.region.excluded


class Candidates:
    """Spans in the order of the text, and what was seen besides."""

    def __init__(self) -> None:
        self.values: list[Candidate] = []
        self.broken: list[Candidate] = []
        self.pieces_dropped = False
        self._breaks = 0
        self.reason_of_break: Reason | None = None
        self.unfinished_at: int | None = None

    def add_value(self, candidate: Candidate) -> None:
        """Note a complete value.

        Raises:
            NoJsonFound: `TOO_MANY_VALUES`.
        """
        self._add(self.values, candidate)

    def add_broken(self, candidate: Candidate) -> None:
        """Note where a value begins that breaks the strict grammar.

        Raises:
            NoJsonFound: `TOO_MANY_VALUES`.
        """
        self._add(self.broken, candidate)

    def count_break(self) -> None:
        """Count a container that was followed and broke.

        Raises:
            NoJsonFound: `TOO_MANY_VALUES`.
        """
        self._breaks += 1
        if self._breaks > MAX_BREAKS:
            raise NoJsonFound(Reason.TOO_MANY_VALUES, f"more than {MAX_BREAKS} broken ones")

    def drop_behind(self, start: int) -> None:
        """Take back what stands behind `start`, complete or broken: it is a piece of something larger."""
        for candidates in (self.values, self.broken):
            while candidates and candidates[-1].start > start:
                candidates.pop()
                self.pieces_dropped = True

    def breaks_off_behind(self, start: int) -> bool:
        """Tell whether a value that began behind `start` never ended."""
        return self.unfinished_at is not None and self.unfinished_at > start

    def _add(self, candidates: list[Candidate], candidate: Candidate) -> None:
        if len(candidates) >= MAX_CANDIDATES:
            raise NoJsonFound(Reason.TOO_MANY_VALUES, f"more than {MAX_CANDIDATES}")
        candidates.append(candidate)
