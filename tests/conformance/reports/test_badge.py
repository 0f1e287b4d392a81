"""The badge that shields.io reads."""

import json
from dataclasses import replace

import pytest

from ao_conformance.reports.documents import badge_text
from ao_conformance.verdict import SuiteResult, Verdict
from tests.conformance.reports.results import small_result

SMALL = small_result()
KEPT = replace(SMALL, vectors=SMALL.vectors[1:], requirements=SMALL.requirements[1:])
KNOWN = replace(
    SMALL,
    vectors=(replace(SMALL.vectors[0], known_failing=True), SMALL.vectors[1]),
    requirements=(replace(SMALL.requirements[0], known_failing=True), SMALL.requirements[1]),
)
UNSEEN = replace(SMALL.requirements[0], verdict=Verdict.NEVER_EXERCISED, findings=())
UNEXERCISED = replace(KEPT, requirements=(UNSEEN, *KEPT.requirements))
WARNED = replace(KEPT, requirements=(replace(KEPT.requirements[0], verdict=Verdict.WARN),))


def badge(message: str, colour: str, **more: object) -> dict[str, object]:
    return {"schemaVersion": 1, "label": "AO executor protocol", "message": message, "color": colour, **more}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param(KEPT, badge("core 3.0: 1/1", "brightgreen"), id="kept"),
        pytest.param(SMALL, badge("core 3.0: 1/2", "red"), id="failed"),
        pytest.param(KNOWN, badge("core 3.0: 1/2", "yellow"), id="known-failure"),
        pytest.param(WARNED, badge("core 3.0: 1/1", "yellow"), id="warned"),
        pytest.param(UNEXERCISED, badge("core 3.0: 1/2, 1 never exercised", "yellow"), id="never exercised"),
        pytest.param(replace(KEPT, suite="runner"), badge("runner 3.0: 1/1", "brightgreen"), id="runner"),
        pytest.param(
            replace(SMALL, vectors=()), badge("core 3.0: not tested", "lightgrey", isError=True), id="nothing"
        ),
    ],
)
def test_a_badge_tells_what_is_kept_of_what_applies(result: SuiteResult, expected: dict[str, object]) -> None:
    assert json.loads(badge_text(result)) == expected
