"""What leads to a mistake stands first: the rule that most vectors show, in the shortest play that shows it."""

from collections.abc import Mapping
from dataclasses import replace

from ao_conformance.reports import REPORT_KINDS, terminal_text
from ao_conformance.reports.overview import headline, looked_at_in, overview_of
from ao_conformance.verdict import Finding, Reason, SuiteResult, TranscriptEntry, Verdict
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


def test_a_long_play_is_no_plain_one_however_little_it_says() -> None:
    result = result_of({"long": "", "short": "x"}, {"AOX-108": {"long": CODE, "short": CODE}})
    slow = replace(result.vectors[0], seconds=45.0)
    overview = overview_of(replace(result, vectors=(slow, *result.vectors[1:])))
    (rule,) = overview.broken

    assert [shown.vector_id for shown in overview.exhibits(rule)] == ["short"]


def test_an_interrupted_run_is_no_pass_in_any_report() -> None:
    small = small_result()
    kept, unplayed = (
        replace(small.vectors[1]),
        replace(small.vectors[0], verdict=Verdict.NOT_APPLICABLE, findings=(), reason=Reason.INTERRUPTED),
    )
    result = replace(small, vectors=(kept, unplayed), requirements=(small.requirements[1],))

    assert (result.verdict, result.exit_code) == (Verdict.HARNESS_ERROR, 130)
    assert headline(result) == "demo 1.2 was not tested to the end: 1 of 2 vectors were played, and none failed."
    assert "⚠ INTERRUPTED" in terminal_text(result)
    assert "interrupted" in REPORT_KINDS["markdown"](result)
    assert "<title>interrupted: demo 1.2" in REPORT_KINDS["html"](result)
    assert '"not tested"' in REPORT_KINDS["badge"](result).replace("core 3.0: ", "")
    assert 'type="interrupted"' in REPORT_KINDS["junit"](result)


def test_what_failed_before_an_interrupt_is_decided() -> None:
    small = small_result()
    result = replace(small, vectors=(small.vectors[0], replace(small.vectors[1], reason=Reason.INTERRUPTED)))

    assert (result.verdict, result.exit_code) == (Verdict.FAIL, 130)


def test_where_nothing_was_played_the_suite_did_not_fail() -> None:
    small = small_result()
    reasons = ["resume is not declared", Reason.ABOVE_LEVEL, "resume is not declared"]
    unplayed = [
        replace(small.vectors[1], id=f"v{number}", verdict=Verdict.NOT_APPLICABLE, reason=reason)
        for number, reason in enumerate(reasons)
    ]
    result = replace(small, vectors=tuple(unplayed), requirements=())

    assert "⚠ NOT TESTED" in terminal_text(result)
    assert "left out  resume is not declared (2); it belongs to the level standard (1)" in terminal_text(result)
    assert result.exit_code == 3


def test_a_pass_says_how_many_vectors_of_its_rule_were_left_out() -> None:
    small = small_result()
    seen, unseen = small.vectors[1], replace(small.vectors[1], id="resumed-minor", verdict=Verdict.NOT_APPLICABLE)
    result = replace(small, vectors=(seen, unseen, small.vectors[0]))

    assert looked_at_in(small.requirements[1], result) == "1 vector, 1 left out"
    assert looked_at_in(small.requirements[1], small) == "1 vector"
    assert "looked at in 1 vector, 1 left out" in REPORT_KINDS["html"](result)
    assert "| ✓ pass | 1 vector, 1 left out |" in REPORT_KINDS["markdown"](result)
