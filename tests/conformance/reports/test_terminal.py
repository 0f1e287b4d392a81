"""What a person sees at the end of a run."""

import io
import re
from dataclasses import replace

from hypothesis import given

from ao_conformance.reports import terminal_text, wants_colours
from ao_conformance.verdict import SuiteResult, Verdict
from tests.conformance.reports.results import every_verdict, hostile_results, small_result

SMALL = """\
AO executor protocol 3.0, core: demo 1.2
  command   demo --quiet

✗ AOX-011 fail (MUST, core, SPEC 2.2)
  Another major is refused as `unsupported_schema_version`.
  expected  `failure`, exit 64
  found     `result`, exit 0
  hint      compare the major as a number
  vector    other-major: another major is refused
      0.000  start      demo --quiet
      0.001     in      {"schema_version":"4.0"}
      0.100    out   1  {"event_type":"run_started","seq":1}
  ▸   0.200    out   2  {"event_type":"result","seq":2}
      0.250   exit      0
  alone     ao conformance run --vector other-major -- demo --quiet
  rule      ao conformance explain AOX-011

2 requirements: 1 pass, 1 fail; 2 vectors of 2 played in 0.8 s, seed 7
✗ FAIL: demo 1.2 does not pass core of the AO executor protocol 3.0: 1 of 2 applicable requirements failed.
"""
OURS = re.compile(r"\x1b\[[0-9;]+m")
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Screen(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_failure_leads_from_the_rule_to_the_line_that_breaks_it_and_the_verdict_is_last() -> None:
    assert terminal_text(small_result()) == SMALL


def test_colours_change_no_word() -> None:
    coloured = terminal_text(every_verdict(), colours=True)

    assert coloured != terminal_text(every_verdict())
    assert OURS.sub("", coloured) == terminal_text(every_verdict())


def test_of_many_failures_the_first_are_shown_in_full_and_the_rest_in_short() -> None:
    small = small_result()
    many = [replace(small.requirements[0], id=f"AOX-{number}") for number in range(100, 112)]
    text = terminal_text(replace(small, requirements=tuple(many)))

    assert text.count("rule      ao conformance explain") == 8
    assert "  also      AOX-108 Another major is refused as `unsupported_schema_version`.\n" in text
    assert "  found     `result`, exit 0 (other-major)\n  also      AOX-109" in text


def test_what_could_not_be_judged_is_told_once_with_the_requirements_that_it_was_for() -> None:
    small = small_result()
    vector = replace(small.vectors[0], verdict=Verdict.HARNESS_ERROR, findings=(), reason="no file is left to open")
    rule = replace(small.requirements[0], verdict=Verdict.HARNESS_ERROR, findings=(), reason=vector.reason)
    text = terminal_text(replace(small, vectors=(vector,), requirements=(rule,)))

    assert "⚠ other-major harness error (AOX-011)\n  another major is refused\n" in text
    assert text.count("no file is left to open") == 1
    assert text.endswith("⚠ HARNESS ERROR: Nothing can be said about demo 1.2: the suite itself failed.\n")


def test_an_executor_that_started_no_tool_is_told_how_to_allow_them() -> None:
    small = small_result()
    unseen = replace(small.vectors[-1], verdict=Verdict.NOT_APPLICABLE, unreached="event:tool_started", findings=())

    text = terminal_text(replace(small, vectors=(*small.vectors[:-1], unseen)))

    assert "note      1 vector on tools showed nothing, since no tool was started" in text
    assert "--base" in text


def test_a_narrow_terminal_gets_wrapped_prose_and_short_transcripts() -> None:
    lines = terminal_text(small_result(), columns=44).splitlines()

    assert '      0.001     in      {"schema_version":"…' in lines
    assert '  ▸   0.200    out   2  {"event_type":"resul' in lines
    assert '                        t","seq":2}' in lines


def test_colours_are_for_terminals_whose_owner_wants_them() -> None:
    assert wants_colours(Screen(), {})
    assert not wants_colours(io.StringIO(), {})
    assert not wants_colours(Screen(), {"NO_COLOR": "1"})
    assert not wants_colours(Screen(), {"TERM": "dumb"})


@given(hostile_results())
def test_no_text_steers_the_terminal(result: SuiteResult) -> None:
    assert not STEERING.search(terminal_text(result))
    assert not STEERING.search(OURS.sub("", terminal_text(result, colours=True)))
