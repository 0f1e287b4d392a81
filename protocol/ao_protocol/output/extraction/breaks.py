"""Remember the containers that broke: what stands inside one, or goes on behind one, is a piece of it.

A piece of a truncated or damaged answer may well match the schema. It must not pass for the answer.
"""

from dataclasses import dataclass
from itertools import groupby
from typing import Final

from ao_protocol.output.extraction.evidence import Evidence
from ao_protocol.output.extraction.grammar import OPENER


@dataclass(slots=True)
class _Open:
    bracket: str
    start: int
    evidence: Evidence
    count: int = 1


class Breaks:
    """The brackets that are still open because their container broke, innermost last."""

    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._counts = {"{": 0, "[": 0}
        self._evident = 0
        self._first_closed: int | None = None

    @property
    def inside_value(self) -> bool:
        """Tell whether a broken value is still open here."""
        return self._evident > 0

    @property
    def behind_value(self) -> bool:
        """Tell whether a broken value seems to have been closed before."""
        return self._first_closed is not None

    def knows(self, closer: str) -> bool:
        """Tell whether anything was noted that such a closer could belong to."""
        return self._counts[OPENER[closer]] > 0 or self.behind_value

    def add(self, brackets: str, start: int, evidence: Evidence) -> None:
        """Note brackets that stay open, from a value that began at `start`."""
        if len(self._open) > _MAX_OPEN:
            self._forget_half()
        for bracket, run in groupby(brackets):
            self._push(_Open(bracket, start, evidence, sum(1 for _ in run)))

    def add_run(self, count: int, start: int) -> None:
        """Note a run of `{` that can begin no object, such as a template's."""
        if len(self._open) > _MAX_OPEN:
            self._forget_half()
        self._push(_Open("{", start, Evidence.PROSE, count))

    def close(self, closer: str) -> int | None:
        """Close the innermost bracket of that kind.

        Returns the start of the broken value that this shows to have gone on until here: what was found
        behind that start stood inside it. A closer that fits nothing shows that a broken value was taken for
        closed too early, by a bracket in one of its strings; which one is unknown, so the first is meant.
        """
        bracket = OPENER[closer]
        if not self._counts[bracket]:
            return self._first_closed
        while self._open[-1].bracket != bracket:
            self._pop()
        innermost = self._open[-1]
        if innermost.count > 1:
            innermost.count -= 1
            self._counts[bracket] -= 1
            return None
        self._pop()
        if innermost.evidence is Evidence.PROSE:
            return None
        if self._first_closed is None:
            self._first_closed = innermost.start
        return innermost.start

    def leave_region(self, region_start: int) -> int | None:
        """Forget what broke since `region_start`; return where the first value began that never ended."""
        unfinished: int | None = None
        while self._open and self._open[-1].start >= region_start:
            innermost = self._pop()
            if innermost.evidence is Evidence.CERTAIN:
                unfinished = innermost.start
        if self._first_closed is not None and self._first_closed >= region_start:
            self._first_closed = None
        return unfinished

    def _push(self, entry: _Open) -> None:
        self._open.append(entry)
        self._counts[entry.bracket] += entry.count
        self._evident += entry.evidence is not Evidence.PROSE

    def _pop(self) -> _Open:
        entry = self._open.pop()
        self._counts[entry.bracket] -= entry.count
        self._evident -= entry.evidence is not Evidence.PROSE
        return entry

    def _forget_half(self) -> None:
        """Bound the memory that a text of open brackets takes. What is forgotten is far away."""
        kept = self._open[_MAX_OPEN // 2 :]
        certain = [entry for entry in self._open[: _MAX_OPEN // 2] if entry.evidence is Evidence.CERTAIN][:1]
        self._open, self._counts, self._evident = [], {"{": 0, "[": 0}, 0
        for entry in certain + kept:
            self._push(entry)


_MAX_OPEN: Final = 10_000
