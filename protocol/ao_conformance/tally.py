"""From vectors to requirements: what all plays together showed of each rule."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from ao_conformance.model_stand_in import NO_MODEL
from ao_conformance.rules import requirements_by_id
from ao_conformance.vectors import load_process_vectors
from ao_conformance.verdict import RequirementResult, VectorResult, Verdict, worst
from ao_protocol.published import Requirement

OF_RUNNERS: Final = "runner"
INCOMPLETE: Final = (Verdict.HARNESS_ERROR, Verdict.UNTESTABLE)
UNSEEN: Final = (
    "the capability is declared, and no vector could look at it: name a model_endpoint that can be simulated, "
    "or do not declare the capability"
)

NOT_SELECTED: Final = "none of its vectors that were selected could look at it"


def tally(vectors: Sequence[VectorResult], level: str, declares: Callable[[str], bool]) -> list[RequirementResult]:
    """Return what was found of every requirement that an executor can keep, in the order of the specification."""
    return [
        _judged(rule, vectors, level, declares) for rule in requirements_by_id().values() if rule.level != OF_RUNNERS
    ]


def requirement_result(rule: Requirement, vectors: Sequence[VectorResult], reason: str = "") -> RequirementResult:
    """Return what the vectors showed of a rule; `reason` says why it does not apply, where it does not."""
    findings = [
        (vector.id, finding) for vector in vectors for finding in vector.findings if finding.requirement == rule.id
    ]
    looked = [vector for vector in vectors if rule.id in vector.judged]
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
        vectors=tuple(vector.id for vector in looked),
        reason=why_so,
    )


def _judged(
    rule: Requirement, vectors: Sequence[VectorResult], level: str, declares: Callable[[str], bool]
) -> RequirementResult:
    reason = ""
    if rule.level == "standard" and level == "core":
        reason = "it belongs to the level standard"
    elif rule.capability and not declares(rule.capability):
        reason = f"{rule.capability} is not declared"
    found = requirement_result(rule, vectors, reason)
    if found.reason == UNSEEN and sum(rule.id in vector.requirements for vector in vectors) < _vectors_of(rule.id):
        return replace(found, verdict=Verdict.NOT_APPLICABLE, reason=NOT_SELECTED)
    return found


def _vectors_of(requirement: str) -> int:
    return sum(requirement in vector.requirements for vector in load_process_vectors())


def _verdict(
    rule: Requirement, vectors: Sequence[VectorResult], found: Sequence[Verdict], reason: str
) -> tuple[Verdict, str]:
    """Return the verdict on a rule, and the reason where it was not simply looked at."""
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
    if rule.capability and any(vector.reason == NO_MODEL for vector in own):
        return Verdict.UNTESTABLE, UNSEEN
    if not own:
        unseen = "no vector looks at it from outside"
    elif any(vector.reason == NO_MODEL for vector in own):
        unseen = NO_MODEL
    else:
        unseen = own[0].reason or "nothing came that could show it"
    return Verdict.NOT_APPLICABLE, unseen
