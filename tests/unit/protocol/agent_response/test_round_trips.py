"""Whatever a response says, each form gives it back, and so does every way through the forms."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ao_protocol.agent_response import (
    AgentResponse,
    Finding,
    Form,
    RelevantFile,
    Results,
    examine_response,
    parse_agent_response,
    write_response,
)
from ao_protocol.wire import JsonObject
from tests.unit.protocol.agent_response.drawn_responses import NASTY, responses, texts


@pytest.mark.parametrize("form", list(Form))
@given(response=responses)
def test_each_form_gives_back_what_was_written(form: Form, response: AgentResponse) -> None:
    written = write_response(response, form)
    assert parse_agent_response(written) == response
    assert examine_response(written, form=form).response == response


@given(response=responses)
def test_a_way_through_all_forms_loses_nothing(response: AgentResponse) -> None:
    text = write_response(response, Form.JSON)
    for form in (Form.XML, Form.MARKDOWN, Form.JSON, Form.MARKDOWN, Form.XML, Form.JSON):
        text = write_response(parse_agent_response(text), form)
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
def test_a_text_is_canonical_after_one_step(text: str) -> None:
    once = Finding(priority="P1", location=text, issue=f"{text}x", rationale=text)
    again = Finding(priority="P1", location=once.location, issue=once.issue, rationale=once.rationale)
    assert again == once


def test_what_xml_cannot_hold_is_replaced_and_line_ends_are_line_feeds() -> None:
    response = AgentResponse(agent=" a\r\n b ", summary=" one\r\ntwo\x1b[0m\ud800 ")
    assert (response.agent, response.summary) == ("a b", "one\ntwo\ufffd[0m\ufffd")
