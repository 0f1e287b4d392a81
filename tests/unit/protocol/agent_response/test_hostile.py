"""Hostile and huge texts are refused or read, and never followed anywhere.

One that did not end would meet the time limit of the suite.
"""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.agent_response import (
    AgentResponseError,
    Form,
    NotWellFormed,
    ResponseTooDeep,
    ResponseTooLarge,
    UnsafeXml,
    examine_response,
    parse_agent_response,
)

RESPONSE = '<agent_response agent="a" version="1.0"><summary>{}</summary></agent_response>'
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
BILLION_LAUGHS = f'<!DOCTYPE agent_response [<!ENTITY l0 "ha">{LAUGHS}]>' + RESPONSE.format("&l9;")
XXE = '<!DOCTYPE agent_response [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + RESPONSE.format("&x;")


@pytest.mark.parametrize(
    "text",
    [
        BILLION_LAUGHS,
        f'<?xml version="1.0"?>\n{BILLION_LAUGHS}',
        f"```xml\n{BILLION_LAUGHS}\n```",
        XXE,
        f'<?xml version="1.0" encoding="UTF-16"?>{XXE}',
        '<!DOCTYPE agent_response SYSTEM "http://127.0.0.1:9/x.dtd">' + RESPONSE.format("s"),
        '<!DOCTYPE a [<!ENTITY % p SYSTEM "http://127.0.0.1:9/p"> %p;]>' + RESPONSE.format("s"),
        '<agent_response agent="a"><?php evil ?><summary>s</summary></agent_response>',
    ],
    ids=[
        "laughs",
        "laughs after xml",
        "laughs in a fence",
        "xxe",
        "claimed encoding",
        "dtd",
        "parameter",
        "instruction",
    ],
)
def test_declarations_and_instructions_are_refused(text: str) -> None:
    with pytest.raises(UnsafeXml) as raised:
        parse_agent_response(text)
    assert raised.value.place.startswith("line ")


@pytest.mark.parametrize("text", [f"Look: {BILLION_LAUGHS}", f"Look: {XXE}"], ids=["laughs", "xxe"])
def test_an_entity_that_prose_declared_is_unknown(text: str) -> None:
    with pytest.raises(NotWellFormed, match="undefined entity"):
        parse_agent_response(text)


def test_a_finding_may_name_what_is_refused() -> None:
    response = parse_agent_response("Findings:\n- [P1] <!DOCTYPE is read — a.py:1 — XXE")
    assert response.findings[0].issue == "<!DOCTYPE is read"


def test_deep_nesting_is_refused_without_recursion() -> None:
    with pytest.raises(ResponseTooDeep, match="at most 64 levels"):
        parse_agent_response(RESPONSE.format("<a>" * 1_000_000))


def test_many_elements_are_refused() -> None:
    with pytest.raises(ResponseTooLarge, match="200000 elements"):
        parse_agent_response(f'<agent_response agent="a"><agent_specific>{"<a/>" * 300_000}')


def test_a_text_beyond_the_limit_is_not_read() -> None:
    with pytest.raises(ResponseTooLarge, match="4194304 at most"):
        parse_agent_response(RESPONSE.format("x" * (16 * 2**20)))


MANY = 2 * 2**20
HUGE: dict[str, Callable[[int], str]] = {
    "one long text": lambda size: RESPONSE.format("x" * size),
    "references": lambda size: RESPONSE.format("x\n&lt;" * (size // 6)),
    "a long attribute": lambda size: '<agent_response agent="' + "x" * size + '"><summary>s</summary></agent_response>',
    "a tag in a tag": lambda size: "<agent_response " * (size // 16),
    "a root in a root": lambda size: "<agent_response>" * (size // 16),
    "blanks in a tag": lambda size: "<agent_response" + " " * size,
    "angle brackets": lambda size: "<agent_response agent='a'><summary>" + "<" * size,
    "plain text": lambda size: "x" * size,
    "blanks": lambda size: " " * size,
    "rules": lambda size: "---\n" * (size // 4),
    "blanks in front matter": lambda size: "---\nagent: " + " " * size,
    "blanks in a heading": lambda size: "---\nagent: a\n---\n# Summary" + " " * size + "x",
    "headings in a line": lambda size: "# " * (size // 2),
    "dashes in a finding": lambda size: "Findings:\n" + "- [P1] " + "a — " * (size // 4),
    "blanks in a finding": lambda size: "Findings:\n" + "- [P1] " + " " * size + "— x",
    "line ends after a finding": lambda size: "Findings:\n" + "- [P1] x" + "\n" * size,
    "findings": lambda size: "- [P1] a — b.py:1 — c\n" * (size // 22),
    "results and files": lambda size: "<results><files>" * (size // 16),
    "paths that do not end": lambda size: "<results>" + "<file path='" * (size // 12),
    "blanks in an older tag": lambda size: "<analysis" + " " * size,
    "braces and quotes": lambda size: '"summary"' + '{ "' * (size // 4),
    "brackets": lambda size: '{"summary": ' + "[" * size,
    "fences": lambda size: "```\n" * (size // 4),
    "ampersands": lambda size: RESPONSE.format("&" * size),
    "broken roots": lambda size: (RESPONSE.format("&& <file>" + "x" * (size // 8)) + "\n") * 8,
    "brackets in a finding": lambda size: "Findings:\n- [P1] " + "(a.ts:1) " * (size // 9),
    "open brackets in findings": lambda size: ("- [P1] " + "(" * 390 + "a/b\n") * (size // 400),
    "slashes in findings": lambda size: ("- [P1] x - " + "/" * 390 + " y\n") * (size // 400),
    "colons in a finding": lambda size: "Findings:\n- [P1] a/b " + ": " * (size // 2),
    "hyphens in a finding": lambda size: "Findings:\n- [P1] a/b " + "- " * (size // 2),
    "document types": lambda size: "<!DOCTYPE " * (size // 10),
    "front matters in fences": lambda size: "```markdown\n---\nagent: a\n---\n" * (size // 30),
    "typographic quotes": lambda size: "“summary”" + "{“" * (size // 2),
    "unknown names": lambda size: (
        '{"agent": "a", "summary": "s", ' + ", ".join(f'"summar{n}": 1' for n in range(size // 16)) + "}"
    ),
    "single quotes": lambda size: "'summary'" + "{'" * (size // 2),
}


@pytest.mark.parametrize("name", HUGE)
def test_a_huge_text_is_read_or_refused(name: str) -> None:
    text = HUGE[name](MANY)
    with suppress(AgentResponseError):
        parse_agent_response(text)
    with suppress(AgentResponseError):
        examine_response(text, form=Form.XML)


def test_more_braces_than_are_looked_at_are_refused() -> None:
    with pytest.raises(ResponseTooLarge, match="1000000 at most"):
        parse_agent_response('"summary" {"' + "{" * 1_000_000)


def test_a_refusal_of_ten_megabytes_is_short() -> None:
    with pytest.raises(AgentResponseError) as raised:
        parse_agent_response("x" * (10 * 2**20))
    assert len(str(raised.value)) < 500


MARKS = "& && < <T> </T> </ <b/> ]]> > \" ' x= é <issue> </issue> <file> </file> <summary/> <? ?> <! <!D> ; #1"
PIECES = [*MARKS.split(), "<T ", " ", "\n", "<file path='p'>"]


@given(text=st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_a_text_that_is_not_escaped_is_read_as_it_stands_or_refused(text: str) -> None:
    finding = f'<finding priority="P1" location=""><issue>x{text}x</issue><rationale/></finding>'
    xml = f'<agent_response agent="a"><summary>s</summary><findings>{finding}</findings></agent_response>'
    with suppress(AgentResponseError):
        assert [each.issue for each in parse_agent_response(xml).findings] == [f"x{text}x"]
