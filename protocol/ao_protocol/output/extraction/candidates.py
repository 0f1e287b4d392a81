"""The values that were found in the text, and the places where reading them leniently may be tried."""

from dataclasses import dataclass

from ao_protocol.output.extraction.limits import MAX_CANDIDATES
from ao_protocol.output.extraction.outcome import NoJsonFound, Reason
from ao_protocol.output.extraction.regions import Region


@dataclass(frozen=True, slots=True)
class Candidate:
    """A span that may be the answer, and the innermost region it stands in. `end` is None where it broke."""

    start: int
    end: int | None
    region: Region | None = None


class Candidates:
    """Spans in the order of the text, and what was seen besides."""

    def __init__(self) -> None:
        self.values: list[Candidate] = []
        self.broken: list[Candidate] = []
        self.pieces_dropped = False
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

    def drop_behind(self, start: int) -> None:
        """Take back the values that stand behind `start`."""
        while self.values and self.values[-1].start > start:
            self.values.pop()
            self.pieces_dropped = True

    def _add(self, candidates: list[Candidate], candidate: Candidate) -> None:
        if len(candidates) >= MAX_CANDIDATES:
            raise NoJsonFound(Reason.TOO_MANY_VALUES, f"more than {MAX_CANDIDATES}")
        candidates.append(candidate)
