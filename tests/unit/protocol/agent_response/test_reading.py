"""Each form is read strictly, a refusal names the place, and versions are kept to."""

import json
from pathlib import Path

import jsonschema_rs
import pytest
import yaml
from pydantic import ValidationError

from ao_protocol.agent_response import (
    AgentResponse,
    AgentResponseError,
    Finding,
    Form,
    InvalidResponse,
    NoResponseFound,
    NotWellFormed,
    RelevantFile,
    Results,
    UnexpectedContent,
    UnsupportedResponseVersion,
    examine_response,
    instructions_for,
    parse_agent_response,
    response_schema,
    write_response,
)
from ao_protocol.wire import WireModel

FULL = AgentResponse(
    agent="security-sentinel",
    summary="Found one issue",
    findings=[
        Finding(
            priority="P1",
            location="api.ts:45",
            issue="SQL injection",
            rationale="Input is not sanitized",
            suggestion="Bind parameters",
        )
    ],
    results=Results(files=[RelevantFile(path="/src/api.ts", relevance="Holds the query")], answer="In api.ts"),
    error="The tests could not run",
    agent_specific={"choice": "bind"},
)

XML = """\
<agent_response agent="security-sentinel" version="1.0">
  <summary>Found one issue</summary>
  <findings>
    <finding priority="P1" location="api.ts:45">
      <issue>SQL injection</issue>
      <rationale>Input is not sanitized</rationale>
      <suggestion>Bind parameters</suggestion>
    </finding>
  </findings>
  <results>
    <files>
      <file path="/src/api.ts">Holds the query</file>
    </files>
    <answer>In api.ts</answer>
  </results>
  <error>The tests could not run</error>
  <agent_specific encoding="json">{
  "choice": "bind"
}</agent_specific>
</agent_response>"""

MARKDOWN = """\
---
agent: security-sentinel
version: "1.0"
---

## Summary

Found one issue

## Findings

- [P1] SQL injection — api.ts:45 — Input is not sanitized
  - Suggestion: Bind parameters

## Results

### Files

- /src/api.ts — Holds the query

### Answer

In api.ts

## Error

The tests could not run

## Agent-Specific

```json
{
  "choice": "bind"
}
```
"""

DOCUMENT = {
    "agent": "security-sentinel",
    "version": "1.0",
    "summary": "Found one issue",
    "findings": [
        {
            "priority": "P1",
            "location": "api.ts:45",
            "issue": "SQL injection",
            "rationale": "Input is not sanitized",
            "suggestion": "Bind parameters",
        }
    ],
    "results": {"files": [{"path": "/src/api.ts", "relevance": "Holds the query"}], "answer": "In api.ts"},
    "error": "The tests could not run",
    "agent_specific": {"choice": "bind"},
}


def test_each_form_is_written_in_its_way() -> None:
    assert write_response(FULL, Form.XML) == XML
    assert write_response(FULL, Form.MARKDOWN) == MARKDOWN
    assert json.loads(write_response(FULL, Form.JSON)) == DOCUMENT


@pytest.mark.parametrize("form", list(Form))
def test_the_example_in_the_instructions_is_a_response(form: Form) -> None:
    response = examine_response(instructions_for(form), form=form).response
    assert (response.agent, response.findings[0].suggestion) == ("your-name", "How to mend it")
    assert response.results is not None
    assert response.results.files == [RelevantFile(path="src/file.py", relevance="Why this file matters")]
    assert response.error == "Why you could not do what was asked"


def test_parts_stand_in_any_order_and_cdata_is_text() -> None:
    text = '<agent_response agent="a"><error>e</error><summary><![CDATA[a < b && c]]></summary></agent_response>'
    assert parse_agent_response(text) == AgentResponse(agent="a", summary="a < b && c", error="e")


def test_elements_of_the_agents_own_become_json() -> None:
    text = """<agent_response agent="oracle" version="1.0"><summary>s</summary>
      <agent_specific type="architecture-advisory">
        <recommendation><choice>A</choice><why>x</why><why>y</why></recommendation>
      </agent_specific></agent_response>"""
    assert parse_agent_response(text).agent_specific == {
        "@type": "architecture-advisory",
        "recommendation": {"choice": "A", "why": ["x", "y"]},
    }


def xml(inside: str, attributes: str = 'agent="a" version="1.0"') -> str:
    return f"<agent_response {attributes}>\n{inside}\n</agent_response>"


@pytest.mark.parametrize(
    ("text", "refusal", "place", "expected"),
    [
        (
            xml("<summary>s</summary>", 'version="1.0"'),
            UnexpectedContent,
            "line 1, <agent_response>",
            "the attribute agent",
        ),
        (xml(""), UnexpectedContent, "line 1, <agent_response>", "<summary> inside"),
        (xml("<summary> </summary>"), UnexpectedContent, "line 2, <summary>", "a text"),
        (xml("<summary>s</summary><summary>s</summary>"), UnexpectedContent, "line 2, <summary>", "one at most"),
        (xml("<summary>s</summary>stray"), UnexpectedContent, "line 1, <agent_response>", "elements only"),
        (xml("<summary>s</summary><extra/>"), UnexpectedContent, "line 2, <extra>", "<summary> or <findings>"),
        (xml("<summary>a <b>c</b></summary>"), UnexpectedContent, "line 2, <b>", "only text"),
        (
            xml('<summary>s</summary><findings><finding priority="P4" location="x"/></findings>'),
            UnexpectedContent,
            "line 2, <finding> priority",
            "P1, P2 or P3",
        ),
        (
            xml("<summary>s</summary>", 'agent="a" colour="red"'),
            UnexpectedContent,
            "line 1, <agent_response>",
            "only agent, version",
        ),
        (xml("<summary>a &b; c</summary>"), NotWellFormed, "line 2, column 12", "&amp;"),
        (
            xml('<summary>s</summary><agent_specific encoding="json">[1]</agent_specific>'),
            NotWellFormed,
            "line 2, <agent_specific>",
            "one JSON object",
        ),
        ("<agent_response agent='a'>", NotWellFormed, "line 1", "one complete element"),
        ('{"agent": "a", "summary": ""}', InvalidResponse, "$.summary", "a text that is not blank"),
        (
            '{"agent": "a", "summary": "s", "findings": [{"priority": "P0"}]}',
            InvalidResponse,
            "$.findings[0].priority",
            '"P1", "P2" or "P3"',
        ),
        ('{"agent": "a", "summary": "s", ', NotWellFormed, "the text", "one JSON object"),
        ("---\nagent: a\nno colon\n---\n## Summary\ns", NotWellFormed, "line 3", "agent: your-name"),
        ("---\nagent: a\n", NotWellFormed, "line 1", "a line ---"),
        ("---\nagent: a\n---\n## Findings\n- [P1] a — b — c", UnexpectedContent, "the text", "## Summary"),
        (
            "---\nagent: a\n---\n## Summary\ns\n## Findings\n- [P1] a — b — c\n- [P7] a — b — c",
            UnexpectedContent,
            "line 8",
            "P1, P2 or P3",
        ),
        ("---\nagent: a\n---\n## Summary\ns\n## Summary\nt", UnexpectedContent, "line 6", "one at most"),
        ("Findings:\n- [P9] a — b — c", UnexpectedContent, "line 2", "P1, P2 or P3"),
        ("I have nothing to say.", NoResponseFound, "the text", "XML, JSON or Markdown"),
        ("", NoResponseFound, "the text", "XML, JSON or Markdown"),
    ],
)
def test_a_refusal_names_the_place_and_what_was_expected(
    text: str, refusal: type[AgentResponseError], place: str, expected: str
) -> None:
    with pytest.raises(refusal) as raised:
        parse_agent_response(text)
    assert raised.value.place.startswith(place)
    assert expected in raised.value.expected
    assert str(raised.value).startswith(raised.value.place)
    assert raised.value.found in str(raised.value)


def in_each_form(version: str) -> list[str]:
    return [
        f'<agent_response agent="a" version="{version}" new="x"><summary>s</summary><new/></agent_response>',
        json.dumps({"agent": "a", "version": version, "summary": "s", "new": 1}),
        f"---\nagent: a\nversion: {version}\nnew: x\n---\n## Summary\ns",
    ]


@pytest.mark.parametrize("text", in_each_form("1.9"), ids=list(Form))
def test_a_newer_minor_version_is_read_and_its_additions_are_passed_over(text: str) -> None:
    assert parse_agent_response(text) == AgentResponse(agent="a", version="1.9", summary="s")


@pytest.mark.parametrize("version", ["2.0", "0.9", "10.1"])
@pytest.mark.parametrize("form", list(Form))
def test_another_major_version_is_refused(form: Form, version: str) -> None:
    text = dict(zip(Form, in_each_form(version), strict=True))[form]
    with pytest.raises(UnsupportedResponseVersion, match=rf"found version {version}, expected version 1\.x"):
        parse_agent_response(text)


@pytest.mark.parametrize("version", ["1", "one", "1.0.0", "1.00", ""])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(UnsupportedResponseVersion, match="a version"):
        parse_agent_response(in_each_form(version)[0])


@pytest.mark.parametrize("agent", ["a", "yes", "null", "1.0", "a: b # c", '"', "'", "- x", "é \x85 \u2028 🙂", "a\\n"])
def test_front_matter_is_yaml(agent: str) -> None:
    text = write_response(AgentResponse(agent=agent, summary="s"), Form.MARKDOWN)
    assert yaml.safe_load(text.split("---")[1]) == {"agent": agent, "version": "1.0"}
    assert parse_agent_response(text).agent == agent


@pytest.mark.parametrize(
    ("line", "agent"), [("agent: a # note", "a"), ("agent: 'it''s'", "it's"), ('agent:  "x"', "x")]
)
def test_front_matter_as_people_write_it_is_read(line: str, agent: str) -> None:
    assert parse_agent_response(f"---\n# hello\n{line}\nversion: 1.0\n---\n# Summary\ns").agent == agent


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"agent": None},
        {"agent": " "},
        {"agent": 3},
        {"version": "1.12"},
        {"version": "2.0"},
        {"version": 1.0},
        {"summary": "\n\t"},
        {"findings": None},
        {"findings": [{}]},
        {"findings": [{"priority": "P1", "location": "", "issue": "i", "rationale": ""}]},
        {"findings": [{"priority": "p1", "location": "", "issue": "i", "rationale": ""}]},
        {"findings": [{"priority": "P1", "location": "", "issue": "", "rationale": ""}]},
        {"findings": [{"priority": "P1", "location": "", "issue": "i", "rationale": "", "suggestion": None}]},
        {"results": None},
        {"results": {}},
        {"results": {"files": ["/a"]}},
        {"results": {"files": [" "]}},
        {"results": {"files": [1]}},
        {"results": {"files": [{"path": "/a"}], "answer": None}},
        {"results": {"files": [{"path": "", "relevance": "x"}]}},
        {"error": None},
        {"error": {"message": "x"}},
        {"agent_specific": []},
        {"agent_specific": None},
        {"unknown": 1},
    ],
    ids=str,
)
def test_the_schema_and_the_model_agree(change: dict[str, object]) -> None:
    document = DOCUMENT | change
    try:
        AgentResponse.model_validate(document)
        is_taken = True
    except ValidationError:
        is_taken = False
    assert jsonschema_rs.Draft7Validator(response_schema()).is_valid(document) is is_taken


def test_the_schema_names_the_fields_of_the_model() -> None:
    schema = json.loads(json.dumps(response_schema()))
    parts: dict[str, type[WireModel]] = {"finding": Finding, "file": RelevantFile, "results": Results}
    assert list(schema["properties"]) == list(AgentResponse.model_fields)
    assert {name: list(schema["definitions"][name]["properties"]) for name in parts} == {
        name: list(model.model_fields) for name, model in parts.items()
    }
    jsonschema_rs.meta.validate(schema)


def test_a_file_may_be_its_path_alone() -> None:
    response = parse_agent_response('{"agent": "a", "summary": "s", "results": {"files": ["/a.py"]}}')
    assert response.results == Results(files=[RelevantFile(path="/a.py")])


def test_a_refusal_of_values_names_each() -> None:
    with pytest.raises(InvalidResponse) as raised:
        parse_agent_response('{"agent": 1, "summary": "", "findings": [{"priority": "P1"}], "agent_specific": []}')
    assert [(each.place, each.found, each.expected) for each in raised.value.problems] == [
        ("$.agent", "1", "a text"),
        ("$.summary", '""', "a text that is not blank"),
        ("$.findings[0]", "nothing", '"location", a required property'),
        ("$.findings[0]", "nothing", '"issue", a required property'),
        ("$.findings[0]", "nothing", '"rationale", a required property'),
        ("$.agent_specific", "[]", "an object"),
    ]
    assert str(raised.value).startswith('$.agent: found 1, expected a text; $.summary: found "", expected a text that')


def test_a_refusal_of_elements_names_each() -> None:
    text = xml('\n<findings>\n<finding priority="P9"><issue/></finding>\n<x/></findings>', 'agent=" "')
    with pytest.raises(UnexpectedContent) as raised:
        parse_agent_response(text)
    assert [(each.place, each.found, each.expected) for each in raised.value.problems] == [
        ("line 1, <agent_response> agent", "nothing", "a text"),
        ("line 1, <agent_response>", "none", "<summary> inside"),
        ("line 5, <x>", "an unknown element", "<finding> in <findings>"),
        ("line 4, <finding>", "no such attribute", "the attribute location"),
        ("line 4, <finding> priority", '"P9"', "P1, P2 or P3"),
        ("line 4, <finding>", "none", "<rationale> inside"),
        ("line 4, <issue>", "nothing", "a text"),
    ]


def test_a_refusal_of_lines_names_each() -> None:
    with pytest.raises(UnexpectedContent) as raised:
        parse_agent_response("---\nversion: 1.0\nagent: a\n---\n## Findings\n- [P9] a — b — c\n- [P1]\n## Findings\n")
    assert [each.place for each in raised.value.problems] == ["line 8", "the text", "line 6", "line 7"]


def test_of_very_many_problems_fifty_are_kept_and_ten_are_told() -> None:
    with pytest.raises(UnexpectedContent) as raised:
        parse_agent_response(xml("<x/>" * 1000))
    assert len(raised.value.problems) == 50
    assert str(raised.value).endswith("; and 40 more")


def test_a_version_that_is_a_number_is_refused() -> None:
    with pytest.raises(UnsupportedResponseVersion, match=r"^\$\.version: found 1\.0, expected a version as text"):
        parse_agent_response('{"agent": "a", "version": 1.0, "summary": "s"}')


def test_the_package_ships_its_schemas_and_the_instructions_beside_the_schemas_of_the_protocol() -> None:
    from ao_protocol import published

    folder = Path(published.__file__).parent / "schemas" / published.CURRENT_SCHEMAS / "agent_response"
    assert sorted(file.name for file in folder.iterdir()) == [
        "agent_response.schema.json",
        "agent_response.xsd",
        *sorted(f"instructions_{form}.txt" for form in Form),
    ]
