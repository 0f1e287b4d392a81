"""What several plays of one vector say together."""

from collections.abc import Sequence

from ao_conformance.verdict import NEVER_CAME, VectorResult, worst


def differ(results: Sequence[VectorResult]) -> bool:
    """Tell whether a vector had several verdicts; a repeat in which its moment did not come has none."""
    return len({found.verdict for found in results if not found.reason.startswith(NEVER_CAME)}) > 1


def over_all_repeats(results: Sequence[VectorResult]) -> VectorResult:
    """Return the worst of several results of one vector."""
    decisive = worst(result.verdict for result in results)
    return next(result for result in results if result.verdict is decisive)
