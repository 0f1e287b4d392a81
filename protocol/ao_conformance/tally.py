"""Derive the result of each requirement from all plays: repeats, root causes and known failures."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ao_conformance.vectors import ProcessVector, load_process_vectors, requirements_by_id
from ao_conformance.verdict import Reason, RequirementResult, SuiteResult, VectorResult, Verdict, worst
from ao_protocol.published import Requirement

NEVER_A_CONSEQUENCE: Final = "AOX-198"
"""A disclosed secret is always reported as such, whatever else is wrong."""
FAILING: Final = frozenset({Verdict.FAIL, Verdict.UNTESTABLE})
OF_RUNNERS: Final = "runner"
INCOMPLETE: Final = (Verdict.HARNESS_ERROR, Verdict.UNTESTABLE)
NOT_SELECTED: Final = "none of its vectors that were selected could look at it"


def differ(results: Sequence[VectorResult]) -> bool:
    """Return whether a vector had several verdicts. A repeat in which its moment did not come does not count."""
    return len({found.verdict for found in results if not found.unreached}) > 1


def over_all_repeats(results: Sequence[VectorResult]) -> VectorResult:
    """Return the worst of several results of one vector."""
    decisive = worst(result.verdict for result in results)
    return next(result for result in results if result.verdict is decisive)


def with_root_causes(vectors: Sequence[ProcessVector], results: Sequence[VectorResult]) -> list[VectorResult]:
    """Return the results of `vectors`, with every finding under the requirement that is its root cause.

    A vector may build on requirements that other vectors test: a cancel after invalid lines is still a cancel. If a
    vector that does not build on such a requirement shows that it is broken, that is what both vectors show.
    """
    shown = []
    for vector, result in zip(vectors, results, strict=True):
        failed = {finding.requirement for finding in result.findings if finding.verdict is Verdict.FAIL}
        shown.append((vector, failed.difference(vector.builds_on)))
    broken = _broken_by_themselves(shown)
    return [
        _told_as(cause, result) if (cause := next(filter(broken.__contains__, vector.builds_on), None)) else result
        for vector, result in zip(vectors, results, strict=True)
    ]


def _broken_by_themselves(shown: Sequence[tuple[ProcessVector, set[str]]]) -> set[str]:
    """Return the requirements that are shown as broken by vectors that do not show a consequence.

    What follows depends on what is broken, and vice versa. So the set of broken requirements is narrowed down until it
    no longer changes. Two requirements that are each other's consequence remain.
    """

    def shown_by_what_builds_on_none_of(broken: set[str]) -> set[str]:
        unaffected = [requirements for vector, requirements in shown if broken.isdisjoint(vector.builds_on)]
        return set().union(*unaffected)

    maybe = {requirement for _, requirements in shown for requirement in requirements}
    while (narrowed := shown_by_what_builds_on_none_of(shown_by_what_builds_on_none_of(maybe))) != maybe:
        maybe = narrowed
    return maybe


def _told_as(cause: str, result: VectorResult) -> VectorResult:
    findings = tuple(
        finding if finding.requirement == NEVER_A_CONSEQUENCE else replace(finding, requirement=cause)
        for finding in result.findings
    )
    return replace(result, findings=findings, hint="")


class KnownFailingError(ValueError):
    """An entry of the list of known failures is neither a requirement nor a vector."""


@dataclass(frozen=True, slots=True)
class KnownFailing:
    """The list of known failures: requirements and vectors, by id."""

    entries: frozenset[str] = field(default_factory=frozenset)

    def apply(
        self, vectors: Sequence[VectorResult], requirements: Sequence[RequirementResult]
    ) -> tuple[list[VectorResult], list[RequirementResult], tuple[str, ...]]:
        """Mark the known failures, and return them with the stale entries: those that were played and did not fail.

        A vector is a known failure if it is listed, or if each of its failures is of a listed requirement. A
        requirement is a known failure if it is listed, or if each of its failures was shown by a listed vector.
        """

        def is_known(one: VectorResult | RequirementResult, causes: set[str]) -> bool:
            return one.verdict in FAILING and (one.id in self.entries or (bool(causes) and causes <= self.entries))

        marked_vectors = [
            replace(one, known_failing=True) if is_known(one, _broken_in(one)) else one for one in vectors
        ]
        marked = [
            replace(rule, known_failing=True) if is_known(rule, {vector for vector, _ in rule.findings}) else rule
            for rule in requirements
        ]
        kept = {vector.id for vector in vectors if vector.verdict is Verdict.PASS}
        # A rule that only warns because its level was not requested may fail at that level.
        kept |= {rule.id for rule in requirements if rule.verdict is Verdict.PASS}
        kept |= {rule.id for rule in requirements if rule.verdict is Verdict.WARN and rule.keyword == "SHOULD"}
        return marked_vectors, marked, tuple(sorted(self.entries & kept))


def _broken_in(vector: VectorResult) -> set[str]:
    return {finding.requirement for finding in vector.findings if finding.verdict in FAILING}


def load_known_failing(path: Path, known: frozenset[str]) -> KnownFailing:
    """Read a list: one id per line, `#` begins a remark.

    Raises:
        KnownFailingError: An entry is not among the `known` ids.
        OSError: The file cannot be read.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    entries = {number: entry for number, line in enumerate(lines, 1) if (entry := line.partition("#")[0].strip())}
    for number, entry in entries.items():
        if entry not in known:
            sentence = "is neither a requirement (AOX-nnn) nor a vector; see: ao conformance run --list"
            raise KnownFailingError(f"{path}:{number}: {entry!r} {sentence}")
    return KnownFailing(frozenset(entries.values()))


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """One execution of a suite: its list of known failures, and when it began."""

    known_failing: KnownFailing
    began: float = field(default_factory=time.monotonic)
    began_clock: datetime = field(default_factory=lambda: datetime.now(UTC))

    def result(
        self,
        vectors: Sequence[VectorResult],
        requirements: Sequence[RequirementResult],
        **told: Any,  # noqa: ANN401  # further fields of a result
    ) -> SuiteResult:
        """Return the result of the suite, with the known failures marked and the stale ones listed."""
        vectors, requirements, stale = self.known_failing.apply(vectors, requirements)
        return SuiteResult(
            started_at=self.began_clock.strftime("%Y-%m-%dT%H:%M:%SZ"),
            seconds=round(time.monotonic() - self.began, 1),
            vectors=tuple(vectors),
            requirements=tuple(requirements),
            stale=stale,
            **told,
        )


def tally(vectors: Sequence[VectorResult], level: str, declares: Callable[[str], bool]) -> list[RequirementResult]:
    """Return the result of every requirement for executors, in the order of the specification."""
    vectors_of = Counter(rule for vector in load_process_vectors() for rule in vector.requirements)
    found = []
    for rule in requirements_by_id().values():
        if rule.level == OF_RUNNERS:
            continue
        reason = ""
        if rule.level == "standard" and level == "core":
            reason = Reason.ABOVE_LEVEL
        elif rule.capability and not declares(rule.capability):
            reason = f"{rule.capability} is not declared"
        result = requirement_result(rule, vectors, reason)
        if result.reason is Reason.UNSEEN and sum(rule.id in one.requirements for one in vectors) < vectors_of[rule.id]:
            result = replace(result, verdict=Verdict.NOT_APPLICABLE, reason=NOT_SELECTED)
        found.append(result)
    return found


def requirement_result(rule: Requirement, vectors: Sequence[VectorResult], reason: str = "") -> RequirementResult:
    """Return the result of one requirement. `reason` is why it does not apply; empty if it does."""
    findings = [
        (vector.id, finding) for vector in vectors for finding in vector.findings if finding.requirement == rule.id
    ]
    verdict, why_so = _verdict(rule, vectors, [finding.verdict for _, finding in findings], reason)
    return RequirementResult(
        id=rule.id,
        keyword=rule.keyword,
        level=rule.level,
        section=f"{rule.section} {rule.section_title}",
        text=rule.text,
        why=rule.why,
        verdict=verdict,
        findings=tuple(findings),
        vectors=tuple(vector.id for vector in vectors if rule.id in vector.judged),
        reason=why_so,
    )


def _verdict(
    rule: Requirement, vectors: Sequence[VectorResult], found: Sequence[Verdict], reason: str
) -> tuple[Verdict, str]:
    """Return the verdict on a requirement, and the reason if it was not tested."""
    own = [vector for vector in vectors if rule.id in vector.requirements]
    incomplete = next((vector for vector in own if vector.verdict in INCOMPLETE and vector.reason), None)
    if found:
        return worst(found), ""
    if reason or rule.untestable:
        return Verdict.NOT_APPLICABLE, reason or rule.untestable or ""
    if incomplete is not None:
        return incomplete.verdict, incomplete.reason
    if any(rule.id in vector.judged for vector in vectors):
        return Verdict.PASS, ""
    lacks_a_model = any(vector.reason is Reason.NO_MODEL for vector in own)
    if rule.capability and lacks_a_model:
        return Verdict.UNTESTABLE, Reason.UNSEEN
    unseen = next((vector for vector in own if vector.verdict is Verdict.NEVER_EXERCISED), None)
    why = Reason.NO_MODEL if lacks_a_model else next((vector.reason for vector in (unseen, *own) if vector), "")
    verdict = unseen.verdict if unseen else Verdict.NOT_APPLICABLE
    return verdict, why or ("nothing came that could show it" if own else "no vector looks at it from outside")
