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
    broken = {
        finding.requirement
        for vector, result in zip(vectors, results, strict=True)
        for finding in result.findings
        if finding.verdict is Verdict.FAIL and finding.requirement not in vector.builds_on
    }
    return [
        _told_as(cause, result) if (cause := next(filter(broken.__contains__, vector.builds_on), None)) else result
        for vector, result in zip(vectors, results, strict=True)
    ]


def _told_as(cause: str, result: VectorResult) -> VectorResult:
    findings = tuple(
        finding if finding.requirement == NEVER_A_CONSEQUENCE else replace(finding, requirement=cause)
        for finding in result.findings
    )
    return replace(result, findings=findings, hint="")
