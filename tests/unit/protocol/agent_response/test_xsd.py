"""The published XSD and the XML reader ask for the same: no tool that reads an XSD is needed to see it."""

from xml.etree import ElementTree

import pytest

from ao_protocol.agent_response import UnexpectedContent, parse_agent_response, response_xsd

XS = "{http://www.w3.org/2001/XMLSchema}"
SCHEMA = ElementTree.fromstring(response_xsd())  # noqa: S314  # our own file
TYPES = {found.attrib["name"]: found for found in SCHEMA if "name" in found.attrib and found.tag != f"{XS}element"}

SMALL = {
    "AgentResponse": '<agent_response agent="a" version="1.0"><summary>s</summary>{}</agent_response>',
    "Findings": '<agent_response agent="a"><summary>s</summary><findings>{}</findings></agent_response>',
    "Finding": '<agent_response agent="a"><summary>s</summary>'
    '<findings><finding priority="P1" location="">{}<issue>i</issue>'
    "<rationale/></finding></findings></agent_response>",
    "Results": '<agent_response agent="a"><summary>s</summary><results>{}</results></agent_response>',
    "Files": '<agent_response agent="a"><summary>s</summary><results><files>{}</files></results></agent_response>',
}
FILLED = {
    "finding": '<finding priority="P1" location=""><issue>i</issue><rationale/></finding>',
    "file": '<file path="p"/>',
    "findings": "<findings/>",
    "results": "<results/>",
    "files": "<files/>",
}
PRESENT = {"AgentResponse": {"summary"}, "Finding": {"issue", "rationale"}}


def elements_of(name: str) -> list[ElementTree.Element]:
    return list(TYPES[name].iter(f"{XS}element"))


def test_every_type_that_is_named_is_there() -> None:
    named = {found.attrib[key] for found in SCHEMA.iter() for key in ("type", "base") if key in found.attrib}
    assert {name for name in named if not name.startswith("xs:")} == set(TYPES)


@pytest.mark.parametrize("name", SMALL)
def test_the_reader_takes_each_element_that_the_xsd_has(name: str) -> None:
    optional = [
        found.attrib["name"] for found in elements_of(name) if found.attrib["name"] not in PRESENT.get(name, set())
    ]
    parse_agent_response(SMALL[name].format("".join(FILLED.get(each, f"<{each}>t</{each}>") for each in optional)))


@pytest.mark.parametrize("name", SMALL)
def test_the_reader_takes_no_other_element(name: str) -> None:
    with pytest.raises(UnexpectedContent, match="<other>: found an unknown element"):
        parse_agent_response(SMALL[name].format("<other/>"))


@pytest.mark.parametrize("name", ["AgentResponse", "Finding"])
def test_the_reader_wants_what_the_xsd_requires(name: str) -> None:
    required = {found.attrib["name"] for found in elements_of(name) if found.get("minOccurs") != "0"}
    assert required == PRESENT[name]
    for each in required:
        text = SMALL[name].format("").replace(f"<{each}>s</{each}>", "").replace(f"<{each}>i</{each}>", "")
        with pytest.raises(UnexpectedContent, match=f"expected <{each}> inside"):
            parse_agent_response(text.replace(f"<{each}/>", ""))


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("AgentResponse", {"agent": "required", "version": None}),
        ("Findings", {}),
        ("Finding", {"priority": "required", "location": "required"}),
        ("Results", {}),
        ("Files", {}),
        ("File", {"path": "required"}),
    ],
)
def test_the_xsd_has_the_attributes_that_the_reader_knows(name: str, attributes: dict[str, str | None]) -> None:
    found = {each.attrib["name"]: each.get("use") for each in TYPES[name].iter(f"{XS}attribute")}
    assert found == attributes


def test_the_priorities_of_the_xsd_are_those_of_the_model() -> None:
    values = [found.attrib["value"] for found in TYPES["Priority"].iter(f"{XS}enumeration")]
    assert values == ["P1", "P2", "P3"]
