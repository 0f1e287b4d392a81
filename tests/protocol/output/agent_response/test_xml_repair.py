"""XML in which a model did not escape what it wrote is read where it can mean one thing only, and says so."""

import re

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ao_protocol.output.agent_response import (
    AgentResponse,
    AgentResponseError,
    Form,
    NotWellFormed,
    Reading,
    RemarkKind,
    ResponseTooDeep,
    UnexpectedContent,
    UnsafeXml,
    examine_response,
    parse_agent_response,
    read_response,
)

FINDING = """<agent_response agent="a" version="1.0">
<summary>s</summary>
<findings>
<finding priority="P1" location="{location}">
<issue>{issue}</issue>
<rationale>r</rationale>
</finding>
</findings>
</agent_response>"""

OWN = """<agent_response agent="a"><summary>x && y</summary>
<agent_specific>{}</agent_specific></agent_response>"""


def with_issue(issue: str, location: str = "a.ts:1") -> str:
    return FINDING.format(issue=issue, location=location)


def told(reading: Reading) -> list[str]:
    return [str(remark) for remark in reading.remarks if remark.kind is RemarkKind.REPAIRED]


@pytest.mark.parametrize(
    "text",
    [
        "a && b",
        "a & b",
        "R&D",
        "x < y",
        "x<y && y>z",
        "a <= b",
        "1 << 2",
        "cat <<EOF",
        "I <3 it",
        "Unchecked List<String> and Map<K, List<V>>",
        "for (i=0; i<n; i++) if (!a&&b) {}",
        "<div> is never closed & <br/> is odd",
        "</div> && </span>",
        "a[b[0]]>1",
        "&",
        "& &",
        "&lt without its end",
        "&;",
        "&#; &#x; &#12 &#xg;",
        "<",
        "Vec<Box<dyn Fn()>>",
    ],
)
def test_what_can_only_be_text_is_read_as_text(text: str) -> None:
    reading = examine_response(with_issue(text))
    assert reading.response.findings[0].issue == text
    assert reading.form is Form.XML
    assert reading.is_repaired
    assert read_response(with_issue(text), Form.XML) == reading.response


def test_a_repair_names_its_place_and_how_it_is_written() -> None:
    reading = examine_response(f"Here:\n{with_issue('a && b', 'Map<K>.java:1')}\nDone & gone <x>.")
    assert told(reading) == [
        "line 5, column 37: '<' is read as text; write it &lt;",
        "line 6, column 10: '&&' is read as text; write it &amp;&amp;",
    ]


def test_what_is_well_formed_is_not_repaired() -> None:
    reading = examine_response(with_issue("a &amp;&amp; b &lt; c <![CDATA[ & < ]]> <!-- & < -->&#60;"))
    assert (reading.response.findings[0].issue, reading.remarks) == ("a && b < c  & <  <", ())


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("a &amp; b & c", "a & b & c"),
        ("&lt;T> & <T>", "<T> & <T>"),
        ("<![CDATA[a & <b>]]> & c", "a & <b> & c"),
        ("<!-- & < -->a & b", "a & b"),
        ("&#38; &", "& &"),
    ],
)
def test_what_is_written_as_xml_beside_a_repair_keeps_its_meaning(written: str, read: str) -> None:
    assert parse_agent_response(with_issue(written)).findings[0].issue == read


def test_attributes_are_repaired_too() -> None:
    assert parse_agent_response(with_issue("i", "List<T>.java:1 & b.java:2")).findings[0].location == (
        "List<T>.java:1 & b.java:2"
    )


@pytest.mark.parametrize(
    "issue",
    [
        "use <file> && x",
        "use <summary>x</summary> && y",
        "</issue> && x",
        "<issue> && x",
        "<finding && x",
        "&b; and && x",
        "&nbsp;& x",
        "&#0;& x",
        "<![CDATA[ && x",
        "<!-- && x",
    ],
)
def test_what_may_be_a_tag_or_a_reference_stays_an_error(issue: str) -> None:
    with pytest.raises(NotWellFormed):
        parse_agent_response(with_issue(issue))


@pytest.mark.parametrize("location", ["a & </finding>", "a & <file path='", "a & <!-- b"])
def test_an_attribute_that_may_hold_a_tag_stays_an_error(location: str) -> None:
    with pytest.raises(NotWellFormed):
        parse_agent_response(with_issue("i", location))


@pytest.mark.parametrize(
    "hostile",
    [
        "<?php evil() ?>",
        "<?xml version='1.0'?>",
        "<!DOCTYPE a [<!ENTITY x 'y'>]>",
        "<!ENTITY x SYSTEM 'file:///x'>",
        "&x;",
    ],
)
@pytest.mark.parametrize("order", ["{} && {}", "{1} {0} && ", "&& {0} {1} &&"])
def test_declarations_and_instructions_do_not_slip_in_through_a_repair(hostile: str, order: str) -> None:
    with pytest.raises((NotWellFormed, UnsafeXml)):
        parse_agent_response(with_issue(order.format(hostile, hostile)))


@pytest.mark.parametrize("gap", ["", "\n", "&& ", "<x "])
def test_a_document_type_before_the_element_is_refused_whatever_follows(gap: str) -> None:
    laughs = '<!DOCTYPE a [<!ENTITY l "ha">]>'
    with pytest.raises((NotWellFormed, UnsafeXml)):
        parse_agent_response(f"{laughs}{gap}{with_issue('&l; && x')}")


def test_a_known_tag_in_a_text_is_told_beside_the_first_problem() -> None:
    with pytest.raises(NotWellFormed) as raised:
        parse_agent_response(with_issue("a && b", "x").replace("</rationale>", "<file></rationale>"))
    assert [(each.place, "mismatched" in each.found) for each in raised.value.problems] == [
        ("line 5, column 11", False),
        ("line 6, column 21", True),
    ]


def test_what_is_wrong_besides_is_told_with_what_was_repaired() -> None:
    with pytest.raises(NotWellFormed) as raised:
        parse_agent_response('<agent_response agent="a">\n<extra/>\n<answer>a && b</answer></agent_response>')
    assert [each.found for each in raised.value.problems[1:]] == ["an unknown element"] * 2 + ["none"]


def test_elements_of_the_agents_own_stay_elements() -> None:
    text = OWN.format('<choice cost="1 < 2 & 3">a < b && c</choice><summary>own</summary>')
    assert parse_agent_response(text).agent_specific == {
        "choice": {"@cost": "1 < 2 & 3", "#text": "a < b && c"},
        "summary": "own",
    }


def test_what_looks_like_an_own_element_and_does_not_end_stays_an_error() -> None:
    with pytest.raises(NotWellFormed):
        parse_agent_response(OWN.format("List<String>"))


def test_elements_of_a_newer_minor_version_stay_elements() -> None:
    text = '<agent_response agent="a" version="1.7"><summary>x && y<new>z</new></summary></agent_response>'
    assert parse_agent_response(text) == AgentResponse(agent="a", version="1.7", summary="x && y")
    with pytest.raises(NotWellFormed):
        parse_agent_response(text.replace("<new>z</new>", "List<T>"))


@pytest.mark.parametrize("inside", ["<extra>x</extra>", "x"])
def test_what_stands_between_elements_stays_an_error(inside: str) -> None:
    text = f'<agent_response agent="a"><summary>x && y</summary>{inside}</agent_response>'
    with pytest.raises(NotWellFormed) as raised:
        parse_agent_response(text)
    assert isinstance(raised.value.further[0], UnexpectedContent)


def test_a_well_formed_element_in_a_text_stays_an_error() -> None:
    with pytest.raises(UnexpectedContent, match="<b>: found an unknown element"):
        parse_agent_response(with_issue("a <b>c</b>"))


def test_the_wrapper_around_lines_is_repaired_and_called_older() -> None:
    reading = examine_response(
        """<agent_response agent="a"><summary>s</summary><findings>
- [P1] List<String> && more — a.java:1 — why
</findings></agent_response>"""
    )
    assert reading.response.findings[0].issue == "List<String> && more"
    assert (reading.form, reading.is_repaired, reading.is_older) == (Form.XML, True, True)


def test_many_repairs_are_counted_and_not_all_told() -> None:
    reading = examine_response(with_issue("x & y " * 1000))
    assert len(told(reading)) == 51
    assert told(reading)[-1] == "the text: 950 more are repaired"


def test_deep_nesting_is_no_reason_for_a_repair() -> None:
    with pytest.raises(ResponseTooDeep):
        parse_agent_response(with_issue("<a>" * 100 + "&&" + "</a>" * 100))


WORDS = (
    "& && < <= <T> </T> </ <b/> ]]> ]] > \" ' a x= é &é <issue> </issue> <file> </file> <summary/> <? ?> <! <!D> "
    "&x; &amp; ; #1"
)
pieces = st.sampled_from([*WORDS.split(), "<T ", " ", "\n", "<file path='p'>"])


@given(text=st.lists(pieces, max_size=12).map("".join), location=st.lists(pieces, max_size=4).map("".join))
@example(text="<T></T>&", location="a")
@settings(max_examples=400, deadline=None)
def test_a_text_is_read_as_it_stands_or_refused(text: str, location: str) -> None:
    assume(not re.search(r"&[\w#]+;", text + location))
    try:
        reading = examine_response(with_issue(f"x{text}x", f"x{location}x"), form=Form.XML)
    except AgentResponseError:
        return
    assert [each.issue for each in reading.response.findings] == [f"x{text}x"]
    assert reading.response.findings[0].location == f"x{location}x".replace("\n", " ")
    assert reading.is_repaired is bool(re.search("[&<]|]]>", text) or re.search("[&<]", location))
