"""Texts that hold more than one response: several forms, mentions of a form, prose, fences, odd encodings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.agent_response import (
    AgentResponse,
    AgentResponseError,
    Finding,
    Form,
    RelevantFile,
    RemarkKind,
    Results,
    examine_response,
    parse_agent_response,
    write_response,
)

RESPONSE = AgentResponse(
    agent="reviewer",
    summary="Two things",
    findings=[Finding(priority="P1", location="a.ts:1", issue="Raw “query” — really", rationale="Not\nbound")],
)
OTHER = AgentResponse(agent="other", summary="Another")


def test_prose_lines_of_findings_and_a_results_block_are_all_read() -> None:
    text = """I looked at the login.

Findings:
- [P1] Raw query — src/a.ts:12 — Input is not bound
- [P2] No limit — src/b.ts:3

<results>
<files>
- src/a.ts — Builds the query
</files>
<answer>Not safe yet</answer>
</results>

Ask me for more."""
    assert parse_agent_response(text, agent="reviewer") == AgentResponse(
        agent="reviewer",
        summary="2 findings: 1 P1, 1 P2",
        findings=[
            Finding(priority="P1", location="src/a.ts:12", issue="Raw query", rationale="Input is not bound"),
            Finding(priority="P2", location="src/b.ts:3", issue="No limit", rationale=""),
        ],
        results=Results(files=[RelevantFile(path="src/a.ts", relevance="Builds the query")], answer="Not safe yet"),
    )


@pytest.mark.parametrize(
    "prose",
    [
        "I was asked for <agent_response> and prefer JSON.",
        "Not `<agent_response agent='x'>`, which would need && escaped, but:",
        "An <agent_response>…</agent_response> says less than this:",
        "In <results> and <answer> you find more; x < y && z.",
        'Earlier: <agent_response agent="a"><summary>never ended & broken',
    ],
)
def test_a_response_in_a_fence_is_found_behind_prose_that_looks_like_xml(prose: str) -> None:
    for fence, form in (("json", Form.JSON), ("markdown", Form.MARKDOWN)):
        text = f"{prose}\n\n```{fence}\n{write_response(RESPONSE, form).rstrip()}\n```\nThat is all."
        reading = examine_response(text)
        assert (reading.response, reading.form) == (RESPONSE, form)


@pytest.mark.parametrize("first", list(Form))
@pytest.mark.parametrize("second", list(Form))
def test_of_two_responses_the_first_complete_one_is_read(first: Form, second: Form) -> None:
    texts = [
        f"```{form.value}\n{write_response(each, form).rstrip()}\n```"
        for each, form in ((RESPONSE, first), (OTHER, second))
    ]
    reading = examine_response("\n\nand then\n\n".join(texts))
    assert (reading.response, reading.form) == (RESPONSE, first)


@pytest.mark.parametrize("form", list(Form))
def test_that_another_response_was_not_read_is_remarked(form: Form) -> None:
    first, second = (f"```{form}\n{write_response(each, form).rstrip()}\n```\n" for each in (RESPONSE, OTHER))
    (remark,) = examine_response(first + second).remarks
    assert (remark.kind, remark.place) == (RemarkKind.PASSED_OVER, f"line {first.count(chr(10)) + 2}")


def test_the_same_json_twice_is_one_response() -> None:
    text = write_response(RESPONSE, Form.JSON)
    assert examine_response(f"{text}\n\n{text}").remarks == ()


def test_an_incomplete_response_gives_way_to_the_next_complete_one() -> None:
    text = f'<agent_response agent="a"><summary>cut of\n\n{write_response(RESPONSE, Form.XML)}'
    assert parse_agent_response(text) == RESPONSE


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("frame", ["{}", "Here:\n\n```{1}\n{0}\n```\nDone."], ids=["bare", "fence"])
@pytest.mark.parametrize("mark", ["", "\ufeff", "\ufeff\n"], ids=["no mark", "mark", "mark and line"])
def test_line_ends_of_windows_and_a_byte_order_mark_change_nothing(form: Form, frame: str, mark: str) -> None:
    text = mark + frame.format(write_response(RESPONSE, form).rstrip(), form.value)
    assert parse_agent_response(text.replace("\n", "\r\n")) == RESPONSE
    assert parse_agent_response(text.replace("\n", "\r")) == RESPONSE


def test_front_matter_in_a_fence_in_prose_is_read_to_the_end_of_the_fence() -> None:
    inside = "---\nagent: a\n---\n\n## Summary\n\ns\n\n```\ncode\n```"
    for marks in ("~~~~", "```", "`````"):
        text = f"Sure!\n\n{marks}markdown\n{inside}\n{marks}\n\n## Findings\nno"
        assert parse_agent_response(text) == AgentResponse(agent="a", summary="s\n\n```\ncode\n```")


def test_typographic_quotation_marks_around_json_are_repaired_and_remarked() -> None:
    reading = examine_response("{“agent”: “a”, “summary”: “He said 'yes'”,}")
    assert reading.response == AgentResponse(agent="a", summary="He said 'yes'")
    assert [remark.kind for remark in reading.remarks] == [RemarkKind.REPAIRED] * 5


def test_json_that_is_cut_off_is_not_completed() -> None:
    with pytest.raises(AgentResponseError):
        parse_agent_response('{"agent": "a", "summary": "s", "findings": [')


def test_lines_of_findings_that_quote_json_are_findings() -> None:
    text = 'Findings:\n- [P1] {"agent": 1} lacks a "summary" — a.ts:1 — invalid'
    assert parse_agent_response(text).findings[0].issue == '{"agent": 1} lacks a "summary"'


def test_what_a_reader_passes_over_is_remarked_with_what_was_perhaps_meant() -> None:
    text = """{"agent": "a", "summary": "s", "finding": [],
    "results": {"files": [{"path": "p", "reason": 1}, {"path": "q", "reason": 1}], "more": 1}}"""
    assert [str(remark) for remark in examine_response(text).remarks] == [
        "$.finding: an unknown name; did you mean 'findings'?",
        "$.results.files[*].reason: an unknown name",
        "$.results.more: an unknown name",
    ]
    front = examine_response("---\nagent: a\nmodel: x\n---\n# Summary\ns")
    assert [str(remark) for remark in front.remarks] == ["$.model: an unknown name"]
    newer = examine_response('<agent_response agent="a" version="1.1"><summary>s</summary><new/></agent_response>')
    assert [str(remark) for remark in newer.remarks] == ["line 1, <new>: an element of a newer version"]


@pytest.mark.parametrize(
    ("text", "form", "remark"),
    [
        ("Findings:\n- [P1] a — b.py:1 — c", None, "the text: lines of findings"),
        ("<results><files>- a.py — b</files></results>", None, "the text: <results>"),
        ("<analysis>a</analysis>", None, "the text: sections of an adviser"),
        (
            '<agent_response agent="a"><summary>s</summary><findings>- [P1] a — b.py:1 — c</findings></agent_response>',
            Form.XML,
            "line 1, <findings>: lines of text instead of elements",
        ),
        (
            '<agent_response agent="a"><findings>\n- [P1] <file> — b.py:1 — c</findings></agent_response>',
            None,
            "<agent_response>: a wrapper around lines of text that is no XML",
        ),
    ],
)
def test_an_older_format_is_named(text: str, form: Form | None, remark: str) -> None:
    reading = examine_response(text)
    assert (reading.form, reading.is_older, [str(each) for each in reading.remarks]) == (form, True, [remark])


@pytest.mark.parametrize("form", list(Form))
def test_a_demanded_form_is_the_only_one_that_counts(form: Form) -> None:
    text = write_response(RESPONSE, form)
    assert examine_response(text, form=form).form is form
    for other in Form:
        if other is not form:
            with pytest.raises(AgentResponseError):
                examine_response(text, form=other)
    with pytest.raises(AgentResponseError, match=f"a response written as {form.value}"):
        examine_response("Findings:\n- [P1] a — b.py:1 — c", form=form)


PIECES = """<agent_response|<agent_response agent="a">|</agent_response>|<summary>|s|</summary>|<findings>|</findings>
|<finding priority="P1" location="a.ts:1">|</finding>|<issue>|</issue>|<rationale>|</rationale>|&&|<|&|]]>|<![CDATA[
|<!--|-->|<?x?>|<!DOCTYPE a>|---|agent: a|## Summary|## Findings|- [P1] | — | - |a.ts:1|: |(a.ts:1)|  |```json|```|{
|}|"agent"|: "a"|,|"summary"|: "s"|“|”|'|Findings:|none|<results>|<files>|</files>|</results>|<answer>|</answer>
|<thinking>|</thinking>|<analysis>|</analysis>|- Suggestion: |&#8212;|&#0;|\x00|\ud800|\ufeff|version="1.7"|[P9]|P1:
|**|1.|\u2028|<file path="p">|</file>|<agent_specific>|</agent_specific>|<x>|</x>""".replace("\n", "").split("|")


@given(pieces=st.lists(st.sampled_from([*PIECES, "\n", "\n\n", "\r\n"]), max_size=25))
def test_whatever_a_text_is_it_is_refused_or_read_and_comes_back_from_every_form(pieces: list[str]) -> None:
    text = "".join(pieces)
    for form in (None, *Form):
        try:
            response = examine_response(text, form=form).response
        except AgentResponseError:
            continue
        assert [parse_agent_response(write_response(response, each)) for each in Form] == [response] * 3
