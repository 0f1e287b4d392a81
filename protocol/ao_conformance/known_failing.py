"""The list of failures that a project knows of: they do not fail it, and an entry that no longer fails does."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ao_conformance.verdict import RequirementResult, VectorResult, Verdict

FAILING: Final = frozenset({Verdict.FAIL, Verdict.UNTESTABLE})


@dataclass(eq=False)
class KnownFailingError(ValueError):
    """The list names something that does not exist."""

    path: Path
    line: int
    entry: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}"
        return (
            f"{place}: {self.entry!r} is neither a requirement (AOX-nnn) nor a vector; see: ao conformance run --list"
        )


@dataclass(frozen=True, slots=True)
class KnownFailing:
    """Requirements and vectors, by id."""

    entries: frozenset[str] = field(default_factory=frozenset)

    def apply(
        self, vectors: Sequence[VectorResult], requirements: Sequence[RequirementResult]
    ) -> tuple[list[VectorResult], list[RequirementResult], tuple[str, ...]]:
        """Mark what is known to fail, and return it with the entries that did not fail although they were played.

        A vector is known to fail where it is listed, or where each of its failures is of a listed requirement; a
        requirement where it is listed, or where each of its failures was shown by a listed vector.
        """
        marked_vectors = [
            replace(vector, known_failing=True)
            if vector.verdict in FAILING and (vector.id in self.entries or self._explains(vector))
            else vector
            for vector in vectors
        ]
        marked = [
            replace(rule, known_failing=True)
            if rule.verdict in FAILING
            and (
                rule.id in self.entries
                or (rule.findings and all(vector in self.entries for vector, _ in rule.findings))
            )
            else rule
            for rule in requirements
        ]
        kept = {vector.id for vector in vectors if vector.verdict is Verdict.PASS} | {
            rule.id for rule in requirements if _is_kept(rule)
        }
        return marked_vectors, marked, tuple(sorted(self.entries & kept))

    def _explains(self, vector: VectorResult) -> bool:
        broken = {finding.requirement for finding in vector.findings if finding.verdict in FAILING}
        return bool(broken) and broken <= self.entries


def _is_kept(rule: RequirementResult) -> bool:
    """Tell whether a listed rule does not fail; one that warns since its level was not asked for may fail there."""
    return rule.verdict is Verdict.PASS or (rule.verdict is Verdict.WARN and rule.keyword == "SHOULD")


def load_known_failing(path: Path, known: frozenset[str]) -> KnownFailing:
    """Read a list: one id per line, `#` begins a remark.

    Raises:
        KnownFailingError: an entry is not among the `known` ids.
        OSError: the file cannot be read.
    """
    entries = set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        entry = line.partition("#")[0].strip()
        if entry and entry not in known:
            raise KnownFailingError(path, number, entry)
        entries.add(entry)
    return KnownFailing(frozenset(entries - {""}))
