"""Several plays of one vector: the worst decides, and what is not the same each time is told."""

from typing import Final

import pytest

from ao_conformance.tally import differ, over_all_repeats
from ao_conformance.verdict import NEVER_CAME, VectorResult, Verdict

PASSED: Final = (Verdict.PASS, "")
FAILED: Final = (Verdict.FAIL, "")
UNSEEN: Final = (Verdict.NOT_APPLICABLE, f"{NEVER_CAME} event:tool_started never came")
UNDECLARED: Final = (Verdict.NOT_APPLICABLE, "cancel is not declared")


def played(*ends: tuple[Verdict, str]) -> list[VectorResult]:
    return [VectorResult("x", "x", "X", "core", None, ("AOX-011",), *end) for end in ends]


@pytest.mark.parametrize(
    ("ends", "is_told", "decides"),
    [
        ([PASSED, PASSED], False, Verdict.PASS),
        ([PASSED, FAILED, PASSED], True, Verdict.FAIL),
        ([PASSED, UNSEEN], False, Verdict.PASS),
        ([UNSEEN, UNSEEN], False, Verdict.NOT_APPLICABLE),
        ([UNSEEN, PASSED, FAILED], True, Verdict.FAIL),
        ([PASSED, UNDECLARED], True, Verdict.PASS),
    ],
    ids=[
        "always the same",
        "once broken",
        "a moment that did not come",
        "one that never did",
        "broken beside it",
        "declared once",
    ],
)
def test_a_moment_that_need_not_come_is_no_verdict(
    ends: list[tuple[Verdict, str]], is_told: bool, decides: Verdict
) -> None:
    results = played(*ends)

    assert (differ(results), over_all_repeats(results).verdict) == (is_told, decides)
