"""What leads to a mistake stands first: the rule that most vectors show, in the shortest play that shows it."""

from collections.abc import Mapping
from dataclasses import replace

from ao_conformance.reports.overview import overview_of
from ao_conformance.verdict import Finding, SuiteResult, TranscriptEntry
from tests.conformance.reports.results import small_result

CODE = Finding("AOX-108", "exit 0", "exit 2")
LATE = Finding("AOX-108", "exit 64", "exit 2")


def result_of(transcripts: Mapping[str, str], broken: Mapping[str, Mapping[str, Finding]]) -> SuiteResult:
    small = small_result()
    vector, rule = small.vectors[0], small.requirements[0]
    return replace(
        small,
        vectors=tuple(
            replace(vector, id=name, transcript=(TranscriptEntry(0.0, "stdin", text),))
            for name, text in transcripts.items()
        ),
        requirements=tuple(replace(rule, id=name, findings=tuple(shown.items())) for name, shown in broken.items()),
    )


def test_the_rule_that_most_vectors_show_to_be_broken_leads() -> None:
    result = result_of(
        {"a": "", "b": "", "c": ""},
        {"AOX-063": {"a": CODE}, "AOX-090": {"a": CODE}, "AOX-108": {"a": CODE, "b": CODE, "c": CODE}},
    )

    assert [rule.id for rule in overview_of(result).broken] == ["AOX-108", "AOX-063", "AOX-090"]


def test_what_most_vectors_show_is_told_first_and_by_the_shortest_of_them() -> None:
    result = result_of(
        {"odd": "x", "long": "x" * 90, "short": "x" * 20, "middle": "x" * 50},
        {"AOX-108": {"odd": LATE, "long": CODE, "short": CODE, "middle": CODE}},
    )
    overview = overview_of(result)
    (rule,) = overview.broken

    assert [(shown.vector_id, shown.also_in) for shown in overview.exhibits(rule)] == [
        ("short", ("long", "middle")),
        ("odd", ()),
    ]
