"""The XML form: what the published XSD describes, written and read.

The reader checks what the XSD says and names the place. Beyond the XSD it takes the lines of the older formats inside
`<findings>` and `<files>`, and from a newer minor version it takes elements and attributes that it does not know.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, cast

from ao_protocol.ijson import NotIJson, decode_object
from ao_protocol.output.agent_response.line_items import files_in, findings_in
from ao_protocol.output.agent_response.model import (
    CURRENT_VERSION,
    PRIORITIES,
    AgentResponse,
    Finding,
    check_version,
    is_newer_minor,
    response_from_document,
)
from ao_protocol.output.agent_response.notes import Notes, RemarkKind
from ao_protocol.output.agent_response.plain_text import json_text
from ao_protocol.output.agent_response.refusals import NotWellFormed, UnexpectedContent, excerpt
from ao_protocol.output.agent_response.xml_document import XML_BLANKS, Element
from ao_protocol.wire import JsonObject

ROOT: Final = "agent_response"

XML_INSTRUCTIONS: Final = """\
Answer with one XML element and nothing else, in this form:

<agent_response agent="your-name" version="1.0">
  <summary>What you did, in one sentence</summary>
  <findings>
    <finding priority="P1" location="src/file.py:12">
      <issue>What is wrong</issue>
      <rationale>Why it matters</rationale>
      <suggestion>How to mend it</suggestion>
    </finding>
  </findings>
  <results>
    <files>
      <file path="src/file.py">Why this file matters</file>
    </files>
    <answer>The direct answer to the question</answer>
  </results>
  <error>Why you could not do what was asked</error>
  <agent_specific>What only you have to say, in elements of your own</agent_specific>
</agent_response>

Only <summary> is required; leave out what does not apply. A priority is P1 (most important), P2 or P3.
Write & as &amp; and < as &lt; in texts, or put a text into <![CDATA[...]]>."""

_ESCAPES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;"}
_SPECIAL_IN_TEXT: Final = re.compile("[&<>]")
_SPECIAL_IN_ATTRIBUTE: Final = re.compile('[&<>"\t\n]')
_NAMESPACE_ATTRIBUTE: Final = re.compile(r"xmlns(?::.*)?|xsi:.*|xml:.*")


def write_xml(response: AgentResponse) -> str:
    """Return the response as one XML element."""
    return "\n".join(_lines(response))


def _lines(response: AgentResponse) -> Iterator[str]:
    yield f'<{ROOT} agent="{_attribute(response.agent)}" version="{response.version}">'
    yield f"  {_leaf('summary', response.summary)}"
    if response.findings:
        yield "  <findings>"
        for finding in response.findings:
            yield from _finding_lines(finding)
        yield "  </findings>"
    if response.results is not None:
        yield "  <results>"
        if response.results.files:
            yield "    <files>"
            for file in response.results.files:
                yield f'      <file path="{_attribute(file.path)}">{_text(file.relevance)}</file>'
            yield "    </files>"
        if response.results.answer is not None:
            yield f"    {_leaf('answer', response.results.answer)}"
        yield "  </results>"
    if response.error is not None:
        yield f"  {_leaf('error', response.error)}"
    if response.agent_specific is not None:
        yield f'  <agent_specific encoding="json">{_text(json_text(response.agent_specific))}</agent_specific>'
    yield f"</{ROOT}>"


def _finding_lines(finding: Finding) -> Iterator[str]:
    yield f'    <finding priority="{finding.priority}" location="{_attribute(finding.location)}">'
    yield f"      {_leaf('issue', finding.issue)}"
    yield f"      {_leaf('rationale', finding.rationale)}"
    if finding.suggestion is not None:
        yield f"      {_leaf('suggestion', finding.suggestion)}"
    yield "    </finding>"


def _leaf(name: str, text: str) -> str:
    return f"<{name}>{_text(text)}</{name}>"


def _text(text: str) -> str:
    return _SPECIAL_IN_TEXT.sub(lambda match: _ESCAPES[match[0]], text)


def _attribute(text: str) -> str:
    return _SPECIAL_IN_ATTRIBUTE.sub(lambda match: _ESCAPES[match[0]], text)


def response_from_element(root: Element, notes: Notes) -> AgentResponse:
    """Return the response that an `<agent_response>` element describes.

    Raises:
        UnexpectedContent: an element or attribute is unknown, twice or missing, or text stands between elements.
        NotWellFormed: what is said to be JSON is not, or the element is only a mention of its own name.
        UnsupportedResponseVersion, InvalidResponse: as `response_from_document` says.
    """
    if not root.attributes and not root.children:
        raise NotWellFormed(root.place, "an element with nothing in it", "an agent and a summary")
    version = root.attributes.get("version", CURRENT_VERSION)
    check_version(version, f"{root.place} version")
    reader = _Reader(notes, tolerant=is_newer_minor(version))
    reader.check_attributes(root, filled=("agent",), optional=("version",))
    parts = reader.parts(root, ("summary",), ("findings", "results", "error", "agent_specific"))
    document: dict[str, object] = {"agent": root.attributes.get("agent"), "version": version}
    readers: dict[str, Callable[[Element], object]] = {
        "summary": reader.filled,
        "findings": reader.findings,
        "results": reader.results,
        "error": reader.leaf,
        "agent_specific": reader.specific,
    }
    document |= {name: readers[name](part) for name, part in parts.items()}
    notes.settle()
    return response_from_document(document)


class _Reader:
    """The rules of the XSD. A tolerant one passes over what a newer minor version has added."""

    def __init__(self, notes: Notes, *, tolerant: bool) -> None:
        self._notes = notes
        self._tolerant = tolerant

    def check_attributes(
        self,
        element: Element,
        *,
        filled: tuple[str, ...] = (),
        required: tuple[str, ...] = (),
        optional: tuple[str, ...] = (),
    ) -> None:
        for name in (*filled, *required):
            if name not in element.attributes:
                self._refuse(element.place, "no such attribute", f"the attribute {name}")
            elif name in filled and not element.attributes[name].strip(XML_BLANKS):
                self._refuse(f"{element.place} {name}", "nothing", "a text")
        known = (*filled, *required, *optional)
        for name in element.attributes:
            if name not in known and not self._tolerant and not _NAMESPACE_ATTRIBUTE.fullmatch(name):
                expected = f"only {', '.join(sorted(known))}" if known else "none"
                self._refuse(element.place, f"the attribute {excerpt(name)}", expected)

    def parts(self, element: Element, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Element]:
        """Return the children by name: each at most once, in any order, and no text between them."""
        if element.text:
            self._refuse(element.place, f"the text {excerpt(element.text)}", "elements only")
        found: dict[str, Element] = {}
        for child in self._known(element, (*required, *optional)):
            if child.name in found:
                self._refuse(child.place, f"a second <{child.name}>", "one at most")
            found[child.name] = child
        for name in required:
            if name not in found:
                self._refuse(element.place, "none", f"<{name}> inside")
        return found

    def leaf(self, element: Element) -> str:
        self.check_attributes(element)
        return self._only_text(element)

    def filled(self, element: Element) -> str:
        text = self.leaf(element)
        if not text:
            self._refuse(element.place, "nothing", "a text")
        return text

    def findings(self, element: Element) -> list[JsonObject]:
        self.check_attributes(element)
        listed = findings_in(element.text, self._notes, element.line) if self._has_lines(element) else []
        return [*listed, *map(self._finding, self._known(element, ("finding",)))]

    def _finding(self, element: Element) -> JsonObject:
        self.check_attributes(element, required=("priority", "location"))
        priority = element.attributes.get("priority", PRIORITIES[0])
        if priority not in PRIORITIES:
            self._refuse(f"{element.place} priority", excerpt(priority), "P1, P2 or P3")
        parts = self.parts(element, ("issue", "rationale"), ("suggestion",))
        finding: JsonObject = {"priority": priority, "location": element.attributes.get("location")}
        if "issue" in parts:
            finding["issue"] = self.filled(parts.pop("issue"))
        return finding | {name: self.leaf(part) for name, part in parts.items()}

    def results(self, element: Element) -> dict[str, object]:
        self.check_attributes(element)
        parts = self.parts(element, (), ("files", "answer"))
        results: dict[str, object] = {}
        if "files" in parts:
            results["files"] = self._files(parts["files"])
        if "answer" in parts:
            results["answer"] = self.leaf(parts["answer"])
        return results

    def _files(self, element: Element) -> list[JsonObject]:
        self.check_attributes(element)
        listed = files_in(element.text) if self._has_lines(element) else []
        return [*listed, *map(self._file, self._known(element, ("file",)))]

    def _file(self, element: Element) -> JsonObject:
        self.check_attributes(element, filled=("path",))
        return {"path": element.attributes.get("path"), "relevance": self._only_text(element)}

    def specific(self, element: Element) -> JsonObject:
        if element.attributes.get("encoding") != "json":
            return _specific(element)
        try:
            return decode_object(element.text.encode())
        except NotIJson as error:
            self._notes.refuse(NotWellFormed(element.place, str(error), "one JSON object, as encoding says"))
            return {}

    def _has_lines(self, element: Element) -> bool:
        if element.text:
            self._notes.remark(RemarkKind.OLDER, element.place, "lines of text instead of elements")
        return bool(element.text)

    def _only_text(self, element: Element) -> str:
        if element.children:
            self._known(element, ())
        return element.text

    def _known(self, element: Element, names: tuple[str, ...]) -> list[Element]:
        known = [child for child in element.children if child.name in names]
        if len(known) < len(element.children):
            self._unknown(element, names)
        return known

    def _unknown(self, element: Element, names: tuple[str, ...]) -> None:
        expected = f"{' or '.join(f'<{name}>' for name in names)}" if names else "only text"
        for child in element.children:
            if child.name not in names and self._tolerant:
                self._notes.remark(RemarkKind.PASSED_OVER, child.place, "an element of a newer version")
            elif child.name not in names:
                self._refuse(child.place, "an unknown element", f"{expected} in <{element.name}>")

    def _refuse(self, place: str, found: str, expected: str) -> None:
        self._notes.refuse(UnexpectedContent(place, found, expected))


def _specific(element: Element) -> JsonObject:
    values: dict[int, object] = {}
    # Children come after their parents, so backwards every child has its value before it is asked for.
    for below in reversed(list(element.walk())):
        values[id(below)] = _value_of(below, values)
    value = values[id(element)]
    return cast("JsonObject", value if isinstance(value, dict) else {"text": value})  # made of texts, lists and dicts


def _value_of(element: Element, values: dict[int, object]) -> object:
    if not element.children and not element.attributes:
        return element.text
    value: dict[str, object] = {f"@{name}": text for name, text in element.attributes.items()}
    if element.text:
        value["#text"] = element.text
    groups: dict[str, list[object]] = {}
    for child in element.children:
        groups.setdefault(child.name, []).append(values[id(child)])
    return value | {name: group[0] if len(group) == 1 else group for name, group in groups.items()}
