"""A real XSD engine and our reader take the same documents of version 1.0; what is written keeps the XSD."""

import pytest
from hypothesis import event, given
from lxml import etree

from ao_protocol.agent_response import (
    AgentResponse,
    AgentResponseError,
    Form,
    InvalidResponse,
    NotWellFormed,
    UnsafeXml,
    examine_response,
    response_xsd,
    write_response,
)
from tests.unit.protocol.agent_response.drawn_responses import responses
from tests.unit.protocol.agent_response.xml_trees import Tree, changed_documents, documents

SCHEMA = etree.XMLSchema(etree.fromstring(response_xsd().encode()))


def engine_takes(text: str) -> bool:
    try:
        return SCHEMA.validate(etree.fromstring(text.encode()))
    except etree.XMLSyntaxError:
        return False


def reader_takes(text: str) -> bool:
    """Tell whether the text is read as it stands: neither repaired nor, as the XSD knows nothing of them, as lines."""
    try:
        reading = examine_response(text, form=Form.XML)
    except AgentResponseError:
        return False
    return not reading.is_older and not reading.is_repaired


@given(document=documents())
def test_both_take_what_keeps_the_schema(document: Tree) -> None:
    text = document.written()
    assert engine_takes(text)
    assert reader_takes(text)


@given(document=changed_documents())
def test_both_take_or_refuse_a_document_with_one_change(document: Tree) -> None:
    text = document.written()
    taken = engine_takes(text)
    event(f"taken: {taken}")
    assert reader_takes(text) is taken


@given(response=responses)
def test_what_is_written_keeps_the_schema(response: AgentResponse) -> None:
    assert engine_takes(write_response(response, Form.XML))


def document(inside: str = "", attributes: str = "") -> str:
    return f'<agent_response agent="a"{attributes}><summary>s</summary>{inside}</agent_response>'


WIDER = {
    "lines of findings": document("<findings>- [P1] a — b.py:1 — c</findings>"),
    "lines of files": document("<results><files>- a.py — b</files></results>"),
    "a newer minor version's element": document("<new/>", ' version="1.1"'),
    "a newer minor version's attribute": document("", ' version="1.1" new="x"'),
    "a default namespace": document("", ' xmlns="urn:x"'),
    "the language of a text": document("", ' xml:lang="en"'),
    "a prefix that is not declared": document("<agent_specific><x:y/></agent_specific>"),
    "a type that the document claims": document(
        "", ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="Findings"'
    ),
}


@pytest.mark.parametrize("name", WIDER)
def test_beyond_the_schema_only_what_is_documented_is_read(name: str) -> None:
    assert not engine_takes(WIDER[name])
    assert examine_response(WIDER[name], form=Form.XML).response.summary == "s"


NARROWER = {
    "a document type": (f"<!DOCTYPE agent_response>{document()}", UnsafeXml),
    "a processing instruction": (document("<?x y?>"), UnsafeXml),
    "JSON that is none": (document('<agent_specific encoding="json">[1]</agent_specific>'), NotWellFormed),
    "JSON that no event can carry": (
        document(f'<agent_specific encoding="json">{{"a": {"[" * 61}{"]" * 61}}}</agent_specific>'),
        InvalidResponse,
    ),
    "more levels than are read": (
        document(f"<agent_specific>{'<a>' * 99}{'</a>' * 99}</agent_specific>"),
        AgentResponseError,
    ),
}


@pytest.mark.parametrize("name", NARROWER)
def test_of_what_keeps_the_schema_only_what_is_documented_is_refused(name: str) -> None:
    text, refusal = NARROWER[name]
    assert engine_takes(text)
    with pytest.raises(refusal):
        examine_response(text, form=Form.XML)
