"""What follows from a mistake that another vector shows is told as that mistake."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ao_conformance.vectors import ProcessVector
from ao_conformance.verdict import VectorResult, Verdict

NEVER_A_CONSEQUENCE: Final = "AOX-198"
"""A secret that was told is told as that, whatever else is wrong."""


def with_root_causes(vectors: Sequence[ProcessVector], results: Sequence[VectorResult]) -> list[VectorResult]:
    """Return the results of `vectors`, with every finding under the requirement that it begins with.

    A vector may build on requirements that are not its own: a cancel behind odd lines is a cancel. Where a vector that
    does not build on such a requirement found it broken, that is what both show.
    """
    broken = _broken_by_themselves(
        [(vector, _shown(vector, result)) for vector, result in zip(vectors, results, strict=True)]
    )
    return [
        _told_as(cause, result) if (cause := next(filter(broken.__contains__, vector.builds_on), None)) else result
        for vector, result in zip(vectors, results, strict=True)
    ]


def _shown(vector: ProcessVector, result: VectorResult) -> set[str]:
    failed = {finding.requirement for finding in result.findings if finding.verdict is Verdict.FAIL}
    return failed.difference(vector.builds_on)


def _broken_by_themselves(shown: Sequence[tuple[ProcessVector, set[str]]]) -> set[str]:
    """Return what is shown to be broken by vectors that do not show what follows from something else.

    What follows depends on what is broken, and the other way round. So what may be broken is narrowed down by what is
    broken for certain until nothing changes; two that are told as each other's consequence remain.
    """
    maybe = {requirement for _, requirements in shown for requirement in requirements}
    while True:
        certain = _shown_by_what_builds_on_none_of(maybe, shown)
        narrowed = _shown_by_what_builds_on_none_of(certain, shown)
        if narrowed == maybe:
            return maybe
        maybe = narrowed


def _shown_by_what_builds_on_none_of(broken: set[str], shown: Sequence[tuple[ProcessVector, set[str]]]) -> set[str]:
    return {
        requirement
        for vector, requirements in shown
        if broken.isdisjoint(vector.builds_on)
        for requirement in requirements
    }


def _told_as(cause: str, result: VectorResult) -> VectorResult:
    findings = tuple(
        finding if finding.requirement == NEVER_A_CONSEQUENCE else replace(finding, requirement=cause)
        for finding in result.findings
    )
    return replace(result, findings=findings, hint="")
