"""Whatever a response says, each form gives it back, and so does every way through the forms."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ao_protocol.output.agent_response import (
    AgentResponse,
    Finding,
    Form,
    RelevantFile,
    Results,
    convert,
    parse_agent_response,
    read_response,
    write_response,
)
from ao_protocol.wire import JsonObject

NASTY = [
    "]]>",
    "<![CDATA[x]]>",
    "a & b < c > d \" ' &amp; &#65; &#38;#65;",
    "two\nlines\n\n  indented\n\ttab",
    "issue — src/a.py:1 — why",
    "— dashes — – - --",
    "- [P1] no finding — x — y",
    "## Results\n### Files\n- /a — b\n## Summary",
    "---\nagent: other\n---",
    "```json\n{}\n```",
    "**bold** `code` _it_ [a](b) \\* # + > | ~",
    "`code`",
    "**bold**",
    "first\n- Suggestion: second\n  - Suggestion: third\nSuggestion: fourth",
    "<agent_response agent='x'>",
    "</agent_response>",
    "none",
    "control \x00\x07\x1b[31m \ufffe \ud800 end\r\nline\rend",
    "\x85 \u2028 \u2029 \ufeff \xa0 \u200b",
    "𝕏 é 漢字 🙂",
    "key: value # comment",
    "true",
    '{"summary": 1}',
]

texts = st.one_of(
    st.sampled_from(NASTY),
    st.text(max_size=30),
    st.lists(st.sampled_from([*"—–-#`*[]<>&;:\"'\n\t \r\x00\\/.aP1", "\n  ", "&#"]), max_size=20).map("".join),
)
filled = texts.map(lambda text: f"{text}x")
scalars = (
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["]]>", "```", "\r\n\x00\x1b", "## Summary", "\ufffe\uffff\x7f\x85"]
)
specifics = st.dictionaries(
    words,
    st.recursive(
        scalars | words,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)
findings = st.builds(
    Finding,
    priority=st.sampled_from(["P1", "P2", "P3"]),
    location=texts,
    issue=filled | st.sampled_from(NASTY),
    rationale=texts,
    suggestion=st.none() | texts,
)
files = st.builds(RelevantFile, path=filled | st.sampled_from(NASTY), relevance=texts)
responses = st.builds(
    AgentResponse,
    agent=filled | st.sampled_from(NASTY),
    version=st.sampled_from(["1.0", "1.7"]),
    summary=filled | st.sampled_from(NASTY),
    findings=st.lists(findings, max_size=3),
    results=st.none() | st.builds(Results, files=st.lists(files, max_size=3), answer=st.none() | texts),
    error=st.none() | texts,
    agent_specific=st.none() | specifics,
)


@pytest.mark.parametrize("form", list(Form))
@given(response=responses)
@settings(max_examples=120, deadline=None)
def test_each_form_gives_back_what_was_written(form: Form, response: AgentResponse) -> None:
    written = write_response(response, form)
    assert parse_agent_response(written) == response
    assert read_response(written, form) == response


@given(response=responses)
@settings(max_examples=60, deadline=None)
def test_a_way_through_all_forms_loses_nothing(response: AgentResponse) -> None:
    text = write_response(response, Form.JSON)
    for form in (Form.XML, Form.MARKDOWN, Form.JSON, Form.MARKDOWN, Form.XML, Form.JSON):
        text = convert(text, form)
    assert parse_agent_response(text) == response


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_odd_texts_come_back_in_every_field(text: str, form: Form) -> None:
    response = AgentResponse(
        agent=text,
        summary=text,
        findings=[Finding(priority="P2", location=text, issue=text, rationale=text, suggestion=text)] * 2,
        results=Results(files=[RelevantFile(path=text, relevance=text)] * 2, answer=text),
        error=text,
        agent_specific={"text": text.encode(errors="replace").decode(), "more": {"list": [1, 1.5, None, True, {}]}},
    )
    assert parse_agent_response(write_response(response, form)) == response


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize(
    "frame", ["{}", "Here it is:\n\n{}\n\nDone.", "Here:\n```{1}\n{0}\n```\nDone."], ids=["bare", "prose", "fence"]
)
def test_a_response_is_found_in_prose_and_fences(form: Form, frame: str) -> None:
    specific: JsonObject = {"a": ["```"]}
    response = AgentResponse(agent="a", summary="s", findings=[], error="broken", agent_specific=specific)
    if form is Form.MARKDOWN and "{1}" not in frame:
        frame = frame.removesuffix("\n\nDone.")
    assert parse_agent_response(frame.format(write_response(response, form).rstrip(), form.value)) == response


@given(text=st.text() | texts)
@example("\ud800")
@settings(max_examples=150, deadline=None)
def test_a_text_is_canonical_after_one_step(text: str) -> None:
    once = Finding(priority="P1", location=text, issue=f"{text}x", rationale=text)
    again = Finding(priority="P1", location=once.location, issue=once.issue, rationale=once.rationale)
    assert again == once


def test_what_xml_cannot_hold_is_replaced_and_line_ends_are_line_feeds() -> None:
    response = AgentResponse(agent=" a\r\n b ", summary=" one\r\ntwo\x1b[0m\ud800 ")
    assert (response.agent, response.summary) == ("a b", "one\ntwo\ufffd[0m\ufffd")
