"""From vectors to requirements: what a selection could not look at is not held against an executor."""

import pytest

from ao_conformance.model_stand_in import NO_MODEL
from ao_conformance.tally import NOT_SELECTED, UNSEEN, tally
from ao_conformance.vectors import ProcessVector, load_process_vectors
from ao_conformance.verdict import Verdict
from tests.conformance.reports.results import result_of

VECTORS = [vector for vector in load_process_vectors() if "AOX-063" in vector.requirements]
OF_A_MODEL = [vector for vector in VECTORS if vector.model_script]


@pytest.mark.parametrize(
    ("vectors", "verdict", "reason"),
    [(OF_A_MODEL, Verdict.NOT_APPLICABLE, NOT_SELECTED), (VECTORS, Verdict.UNTESTABLE, UNSEEN)],
    ids=["some of its vectors", "all of its vectors"],
)
def test_a_declared_capability_is_untestable_only_where_all_of_its_vectors_were_asked_for(
    vectors: list[ProcessVector], verdict: Verdict, reason: str
) -> None:
    rules = tally([result_of(vector, Verdict.NOT_APPLICABLE, NO_MODEL) for vector in vectors], "core", lambda _: True)

    assert [(rule.verdict, rule.reason) for rule in rules if rule.id == "AOX-063"] == [(verdict, reason)]
