"""The suite for parsers: what is asked, how an answer is judged, and codecs that keep the rules or break one."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from ao_conformance.cli.suites import codec_command
from ao_conformance.codec_suite import FORMS, STRAYS, CodecPlan, load_questions, mistake, run_codec_suite
from ao_conformance.matching import difference
from ao_conformance.reports import REPORT_KINDS, terminal_text, write_report
from ao_conformance.verdict import SuiteResult, Verdict
from ao_protocol.framing import decode_object
from ao_protocol.published import load_vectors
from tests.process.executors.examples.building import skip_without

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "conformance-codec.md").read_text(encoding="utf-8")
CODECS = Path(__file__).parent / "codec"
NODE_CODEC = ("node", str(CODECS / "line_codec.js"))
QUESTIONS = load_questions()
LINES = [question for question in QUESTIONS if question.kind in {"line", "framing"}]


def broken(fault: str) -> tuple[str, ...]:
    return (sys.executable, str(CODECS / "broken_codec.py"), fault)


def failed(result: SuiteResult) -> set[str]:
    return {found.id for found in result.requirements if found.verdict is Verdict.FAIL}


def findings(result: SuiteResult, vector_id: str) -> list[tuple[str, str, str]]:
    vector = next(vector for vector in result.vectors if vector.id == vector_id)
    return [(finding.requirement, finding.expected, finding.found) for finding in vector.findings]


def test_every_vector_that_is_no_process_is_a_question() -> None:
    assert len(QUESTIONS) == len([one for one in load_vectors() if one["kind"] not in {"process", "runner"}])


@pytest.mark.parametrize("kind", FORMS)
def test_each_field_of_a_vector_is_asked_or_compared_but_never_both(kind: str) -> None:
    used = {name for question in QUESTIONS if question.kind == kind for name in question.source}
    form = FORMS[kind]

    assert used - {"id", "title", "requirements", "kind", "speaks", "or_inside"} == {*form.asked, *form.answered}
    assert not {*form.asked} & {*form.answered}


def test_a_question_is_one_line_that_any_receiver_reads_and_holds_nothing_that_is_expected() -> None:
    for question in QUESTIONS:
        form = FORMS[question.kind]
        document = decode_object(question.line.removesuffix(b"\n"))

        assert question.line.isascii()
        assert set(document) <= {"id", "kind", *form.asked}


def test_a_line_is_asked_as_bytes_and_where_it_is_text_as_text_too() -> None:
    asked = {question.id: question.line for question in QUESTIONS}

    text = rb'{"id":"line-object","kind":"line","line":"{\"a\": 1}","line_base64":"eyJhIjogMX0="}'
    assert asked["line-object"] == text + b"\n"
    assert asked["line-bad-utf8"] == b'{"id":"line-bad-utf8","kind":"line","line_base64":"eyJhIjoi/yJ9"}\n'


@pytest.mark.parametrize(
    ("vector", "answer", "expected"),
    [
        ({"kind": "line", "valid": True}, {"valid": True, "read_as": {"b": 2}, "reason": None}, None),
        ({"kind": "line", "valid": True}, {"valid": 1}, ("valid is True", "valid is 1, expected True")),
        ({"kind": "line", "valid": True}, {}, ("valid is True", "no valid")),
        (
            {"kind": "line", "valid": True, "read_as": {"a": [1, 2.0]}},
            {"valid": True, "read_as": {"a": [1.0, 2]}},
            None,
        ),
        (
            {"kind": "line", "valid": True, "read_as": {"a": [1]}},
            {"valid": True, "read_as": {"a": [1], "b": 1}},
            ("read_as is {'a': [1]}", "read_as.b is too much"),
        ),
        (
            {"kind": "line", "valid": False, "reason": "not_json"},
            {"valid": False},
            ("reason is 'not_json'", "no reason"),
        ),
        (
            {"kind": "event", "valid": False, "problem_at": ["$.a", "$.b"]},
            {"valid": False, "problem_at": ["$.b", "$.a", "$.b"]},
            None,
        ),
        (
            {"kind": "event", "valid": False, "problem_at": ["$.a.b"]},
            {"valid": False, "problem_at": ["$", "$.a", "$.a.b"]},
            None,
        ),
        (
            {"kind": "event", "valid": False, "problem_at": ["$.ab"]},
            {"valid": False, "problem_at": ["$.a", "$.ab"]},
            ("problem_at is ['$.ab']", "problem_at is ['$.a', '$.ab']"),
        ),
        (
            {"kind": "invocation", "valid": False, "details": {"supported": {"$newest_first": True}}},
            {"valid": False, "details": {"supported": ["3.1", "3.0"]}},
            None,
        ),
        (
            {"kind": "event", "valid": False, "problem_at": ["$.a"]},
            {"valid": False, "problem_at": [["$.a"]]},
            ("problem_at is ['$.a']", "problem_at is [['$.a']]"),
        ),
        (
            {"kind": "conversation", "valid": False, "fault": "wrong_run"},
            {"valid": False, "fault": "wrong_run", "fault_at": 3},
            None,
        ),
        ({"kind": "contract", "holds": None}, {"holds": None, "error": None}, None),
        ({"kind": "contract", "holds": None}, {}, ("holds is None", "no holds")),
        (
            {"kind": "contract", "holds": None},
            {"holds": None, "error": "invalid_invocation"},
            ("no error", "error is 'invalid_invocation'"),
        ),
        ({"kind": "contract", "error": "x", "problem": "$.type"}, {"error": "x", "holds": None}, None),
        (
            {"kind": "contract", "error": "x", "problem": "$.type"},
            {"error": "x", "problem": "$.typo: is odd"},
            ("problem with '$.type' in it", "problem is '$.typo: is odd'"),
        ),
        ({"kind": "control_line", "valid": True}, {"valid": True, "ignored": False}, None),
        ({"kind": "control_line", "valid": True}, {"valid": True, "ignored": True}, ("no ignored", "ignored is True")),
    ],
)
def test_an_answer_is_right_where_each_field_of_the_vector_is_the_same(
    vector: dict[str, Any], answer: dict[str, Any], expected: tuple[str, str] | None
) -> None:
    assert mistake(vector, answer) == expected


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_a_value_is_the_same_when_it_is_read_back_and_difference_works_both_ways(one: object, other: object) -> None:
    assert difference(one, json.loads(json.dumps(one)), exact=True) is None
    assert (difference(one, other, exact=True) is None) == (difference(other, one, exact=True) is None)


def test_of_long_texts_the_first_difference_is_shown() -> None:
    wrong = mistake({"kind": "enrichment", "enriched": "x" * 300 + "yes"}, {"enriched": "x" * 300 + "no"})

    assert wrong is not None
    assert wrong[1] == f"enriched differs from character 300 on: '{'x' * 20}no', expected '{'x' * 20}yes'"


def test_a_codec_in_node_is_right_about_lines_and_does_not_support_the_rest() -> None:
    skip_without("node", "a codec in another language")
    result = run_codec_suite(CodecPlan(NODE_CODEC, QUESTIONS))

    assert failed(result) == set()
    assert result.exit_code == 0
    assert result.executed == len(LINES)


@pytest.mark.parametrize(
    ("fault", "requirements"),
    [
        ("accepts_duplicate_keys", "030 032"),
        ("names_no_reason", "030 032"),
        ("keeps_cr", "021 022"),
        ("keeps_lone_surrogates", "032"),
        ("sorts_supported_versions", "011 015"),
        ("overlooks_a_problem", "070 071 072 074 075 076 085 100 102 176"),
        ("loses_the_fault", "043 071 073 074 090 092 093 094 095 156"),
        ("blames_the_event_before", "043 071 073 074 090 092 093 094 095 156"),
        ("ignores_cancel", "013 062"),
        ("tells_exit_codes_as_text", "101 104 108"),
        ("finds_text_and_problems", "140 141 142 143 144 150 151 152"),
        ("drops_the_contract", "160 161 168 177 180 182"),
        ("trims_the_prompt", "166"),
        ("keeps_the_old_name", "017 161"),
        ("counts_true_as_one", "013 121"),
    ],
)
def test_a_codec_with_a_fault_fails_the_requirements_of_that_fault_and_no_other(fault: str, requirements: str) -> None:
    result = run_codec_suite(CodecPlan(broken(fault), QUESTIONS))

    assert failed(result) == {f"AOX-{number}" for number in requirements.split()}
    assert result.exit_code == 1


def test_a_codec_that_speaks_only_3_0_passes_and_is_not_asked_about_2_x() -> None:
    result = run_codec_suite(CodecPlan(broken("speaks_one_version"), QUESTIONS))
    left_out = {vector.id for vector in result.vectors if vector.verdict is Verdict.NOT_APPLICABLE}

    assert result.exit_code == 0
    assert left_out == {one.id for one in QUESTIONS if "speaks" in one.source or one.kind == "upgrade"}


def test_paths_of_values_that_contain_the_wrong_one_may_be_told_too() -> None:
    result = run_codec_suite(CodecPlan(broken("names_what_contains_it"), QUESTIONS))

    assert result.exit_code == 0


@pytest.mark.parametrize("manner", ["answers_in_reverse", "answers_at_length"])
def test_order_and_length_of_answers_are_free(manner: str) -> None:
    result = run_codec_suite(CodecPlan(broken(manner), QUESTIONS))

    assert result.exit_code == 0
    assert result.executed == len(QUESTIONS)


def test_a_codec_that_supports_nothing_proves_nothing() -> None:
    assert run_codec_suite(CodecPlan(broken("supports_nothing"), QUESTIONS)).exit_code == 3


def test_a_question_without_an_answer_is_a_failure() -> None:
    result = run_codec_suite(CodecPlan(broken("leaves_one_out"), LINES))

    assert failed(result) == {"AOX-020"}
    assert findings(result, "line-object") == [("AOX-020", "an answer", "no answer; the command exited with 0")]


def test_a_second_answer_is_a_failure_even_if_both_are_right() -> None:
    result = run_codec_suite(CodecPlan(broken("answers_twice"), LINES))

    assert failed(result) == {"AOX-020"}
    [(_, expected, found)] = findings(result, "line-object")
    assert (expected, found.partition(",")[0]) == ("one answer", "2 answers")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("prints_a_banner", "line 1 is no JSON: Expecting value: line 1 column 1 (char 0)"),
        ("answers_what_nobody_asked", "answers 'line-9', which was not asked"),
    ],
)
def test_a_line_that_answers_no_question_is_a_failure_and_is_shown(fault: str, reason: str, tmp_path: Path) -> None:
    result = run_codec_suite(CodecPlan(broken(fault), LINES))
    stray = result.vectors[-1]

    assert (stray.id, stray.verdict, result.exit_code) == (STRAYS, Verdict.FAIL, 1)
    assert stray.reason.endswith(reason)
    for kind in REPORT_KINDS:
        write_report(kind, tmp_path / kind, [result])
        assert (tmp_path / kind).stat().st_size
    assert f"{STRAYS} fail\n" in terminal_text(result)
    assert "is the answer to a question\n" in (tmp_path / "markdown").read_text(encoding="utf-8")
    assert ">For </p>" not in (tmp_path / "html").read_text(encoding="utf-8")


def test_a_crash_is_shown_at_the_question_at_which_it_happened() -> None:
    result = run_codec_suite(CodecPlan(broken("crashes_in_the_middle"), LINES))
    crashed = next(vector for vector in result.vectors if vector.id == "line-1000-levels")
    told = "no answer; the command exited with 3, and"
    here, there = (
        f"{told} this is the first question without an answer",
        f"{told} the first question without an answer is",
    )

    assert findings(result, "line-65-levels") == []
    assert findings(result, "line-1000-levels") == [("AOX-030", "an answer", here)]
    assert findings(result, "line-broad") == [("AOX-031", "an answer", f"{there} line-1000-levels")]
    assert [entry.text for entry in crashed.transcript if entry.channel == "stderr"] == ["stack smashed"]


@pytest.mark.parametrize(
    ("fault", "ending"),
    [
        ("stops_reading", "did not end, and was stopped"),
        ("floods_with_lines", "wrote too much"),
        ("floods_without_a_line_end", "wrote too much"),
    ],
)
def test_a_codec_that_does_not_take_part_is_ended(fault: str, ending: str) -> None:
    result = run_codec_suite(CodecPlan(broken(fault), QUESTIONS, limit_seconds=1 if fault == "stops_reading" else 30))

    assert ending in findings(result, "line-bom")[0][2]
    assert result.exit_code == 1


def test_a_codec_that_has_answered_everything_need_not_end() -> None:
    assert run_codec_suite(CodecPlan(broken("never_ends"), LINES)).exit_code == 0


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(codec_command, arguments)
    return result.exit_code, result.output


def test_only_takes_vectors_requirements_and_kinds() -> None:
    code, listed = invoke("--list", "--only", "line-object", "--only", "AOX-021", "--only", "enrichment")

    assert code == 0
    names = {line.split()[0] for line in listed.splitlines()}
    assert {"line-object", "framing-crlf-cut", "enrichment-prompt"} <= names
    assert "line-bom" not in names


def test_the_questions_can_be_written_without_a_codec(tmp_path: Path) -> None:
    invoke("--write", str(tmp_path / "questions"), "--only", "framing")
    _, printed = invoke("--write", "-", "--only", "framing")

    assert (tmp_path / "questions").read_text(encoding="utf-8") == printed
    assert {json.loads(line)["kind"] for line in printed.splitlines()} == {"framing"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "Missing CMD"),
        (("--only", "frames", "--", "true"), "'frames' is not a vector, requirement or kind"),
        (("--only", "AOX-191", "--", "true"), "no question tests AOX-191"),
        (("--", "./no-such-codec"), "./no-such-codec cannot be started"),
        (("--write", "no/such/folder/questions"), "No such file or directory"),
    ],
)
def test_a_bad_command_line_is_told(arguments: tuple[str, ...], says: str) -> None:
    code, output = invoke(*arguments)

    assert code == 2
    assert says in output


def test_known_failures_do_not_count_and_stale_ones_do(tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text("AOX-032\n", encoding="utf-8")
    asked = ("--quiet", "--known-failing", str(known), "--only", "AOX-032", "--")

    assert invoke(*asked, *broken("keeps_lone_surrogates"))[0] == 0
    assert invoke(*asked, *broken("answers_in_reverse"))[0] == 1


def test_a_failure_shows_question_and_answer_and_how_to_ask_it_alone() -> None:
    code, output = invoke("--quiet", "--only", "line-lone-low-surrogate", "--", *broken("keeps_lone_surrogates"))

    assert code == 1
    assert '{"id":"line-lone-low-surrogate","kind":"line",' in output
    assert "read_as.a[0] is '\\ude00', expected '\ufffd'" in output
    assert "ao conformance codec --only line-lone-low-surrogate -- " in output


@pytest.mark.parametrize("kind", FORMS)
def test_the_page_tells_the_table_of_forms(kind: str) -> None:
    form = FORMS[kind]
    asked, answered = (", ".join(f"`{name}`" for name in names) for names in (form.asked, form.answered))

    assert f"| `{kind}` | {asked} | {answered} |" in PAGE


def test_the_page_shows_real_questions_and_right_answers() -> None:
    shown = [json.loads(line) for line in PAGE.splitlines() if line.startswith('{"id":')]
    questions = {question.id: question for question in QUESTIONS}
    asked, answered = shown[:2], shown[2:]

    assert asked == [json.loads(questions[one["id"]].line) for one in asked]
    assert [one["id"] for one in answered] == [one["id"] for one in asked]
    assert [mistake(questions[one["id"]].source, one) for one in answered] == [None, None]
