"""The XML form, which the published XSD describes, written and read.

The reader builds elements with expat, safely: no document type, no entity, no processing instruction, with limits, in
linear time. Then it checks the rules of the XSD and names the place of each problem. Beyond the XSD it accepts lines of
findings and files (see `finding_lines`), and ignores additions of newer minor versions.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, NoReturn
from xml.etree.ElementTree import Element, SubElement, indent, tostring
from xml.parsers import expat

from ao_protocol.agent_response.finding_lines import files_in, findings_in
from ao_protocol.agent_response.model import (
    CURRENT_VERSION,
    PRIORITIES,
    AgentResponse,
    Notes,
    NotWellFormed,
    RemarkKind,
    ResponseTooDeep,
    ResponseTooLarge,
    UnexpectedContent,
    UnsafeXml,
    check_version,
    excerpt,
    json_text,
    response_from_document,
)
from ao_protocol.framing import NotIJson, decode_object
from ao_protocol.wire import JsonObject

ROOT: Final = "agent_response"
MAX_XML_DEPTH: Final = 64
MAX_ELEMENTS: Final = 200_000
"""The maximum number of elements. It bounds memory: an empty element of four characters takes some hundred bytes."""

_BLANKS: Final = " \t\n\r"  # a carriage return can be written as a reference
_NAMESPACE_ATTRIBUTE: Final = re.compile(r"xmlns(?::.*)?|xsi:.*|xml:.*")


def write_xml(response: AgentResponse) -> str:
    """Return the response as one XML element."""
    document = response.model_dump(exclude_none=True)
    root = Element(ROOT, agent=response.agent, version=response.version)
    SubElement(root, "summary").text = response.summary
    if response.findings:
        _write_items(SubElement(root, "findings"), "finding", document["findings"], ("priority", "location"))
    if response.results is not None:
        results = SubElement(root, "results")
        if response.results.files:
            _write_items(SubElement(results, "files"), "file", document["results"]["files"], ("path",))
        if response.results.answer is not None:
            SubElement(results, "answer").text = response.results.answer
    if response.error is not None:
        SubElement(root, "error").text = response.error
    if response.agent_specific is not None:
        SubElement(root, "agent_specific", encoding="json").text = json_text(response.agent_specific)
    indent(root)
    return tostring(root, encoding="unicode", short_empty_elements=False)


def _write_items(above: Element, name: str, items: list[dict[str, str]], attributes: tuple[str, ...]) -> None:
    for item in items:
        element = SubElement(above, name, {attribute: item.pop(attribute) for attribute in attributes})
        element.text = item.pop("relevance", None)
        for part, text in item.items():
            SubElement(element, part).text = text


@dataclass(slots=True)
class _Element:
    """An element. `text` is the text directly inside it, without blanks at its ends."""

    name: str
    attributes: dict[str, str]
    line: int
    children: list["_Element"] = field(default_factory=list)
    text: str = ""

    @property
    def place(self) -> str:
        return f"line {self.line}, <{self.name}>"


def read_xml(text: str, start: int, notes: Notes) -> AgentResponse:
    """Return the response in the element at `start`, which may have a prolog. Text after it is not read."""
    root = _ElementBuilder(text, start).read()
    if root.name != ROOT or not (root.attributes or root.children):
        raise NotWellFormed(root.place, "an element with nothing in it", "an agent and a summary")
    version = root.attributes.get("version", CURRENT_VERSION)
    check_version(version, f"{root.place} version")
    document = _ResponseReader(notes, is_newer=version != CURRENT_VERSION).record(root)
    notes.settle()
    return response_from_document(document)


class _RootEnded(Exception):
    """The root element is complete."""


class _ElementBuilder:
    """Builds the elements in callbacks of expat, so depth of nesting needs no stack."""

    def __init__(self, text: str, start: int) -> None:
        self._content = text[start:].encode()
        self._lines_before = text.count("\n", 0, start)
        self._open: list[tuple[_Element, list[str]]] = []
        self._count = 0
        # The text is decoded already, so the declared encoding has no effect.
        self._parser = parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._refuser("a document type declaration")
        parser.EntityDeclHandler = self._refuser("an entity declaration")
        parser.ExternalEntityRefHandler = self._refuser("an external entity")
        parser.ProcessingInstructionHandler = self._refuser("a processing instruction")

    def read(self) -> _Element:
        try:
            self._parser.Parse(self._content, True)
        except _RootEnded:
            return self._open[0][0]
        except expat.ExpatError as error:
            raise NotWellFormed(
                f"line {self._lines_before + error.lineno}, column {error.offset + 1}",
                f"XML that is not well-formed ({expat.ErrorString(error.code)})",
                "one complete element in which & is written &amp; and < is written &lt;",
            ) from error
        raise AssertionError("expat reports a text without a root element")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        element = _Element(name, attributes, self._lines_before + self._parser.CurrentLineNumber)
        self._count += 1
        if self._count > MAX_ELEMENTS:
            found = f"more than {MAX_ELEMENTS} elements"
            raise ResponseTooLarge(element.place, found, f"{MAX_ELEMENTS} at most")
        if len(self._open) >= MAX_XML_DEPTH:
            raise ResponseTooDeep(element.place, "one more level", f"at most {MAX_XML_DEPTH} levels of elements")
        if self._open:
            self._open[-1][0].children.append(element)
        self._open.append((element, []))

    def _text(self, piece: str) -> None:
        self._open[-1][1].append(piece)

    def _end(self, _name: str) -> None:
        element, pieces = self._open[-1]
        element.text = "".join(pieces).strip(_BLANKS)
        if len(self._open) == 1:
            raise _RootEnded
        self._open.pop()

    def _refuser(self, what: str) -> Callable[..., NoReturn]:
        def refuse(*_: object) -> NoReturn:
            line = self._lines_before + self._parser.CurrentLineNumber
            raise UnsafeXml(f"line {line}", what, "elements and text only")

        return refuse


class _Rule(NamedTuple):
    """The rules of the XSD for an element that contains elements."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    optional_attributes: tuple[str, ...] = ()


_RECORDS: Final = {
    ROOT: _Rule(("summary",), ("findings", "results", "error", "agent_specific"), ("agent",), ("version",)),
    "finding": _Rule(("issue", "rationale"), ("suggestion",), ("location", "priority")),
    "results": _Rule((), ("files", "answer")),
}
_NOT_BLANK: Final = frozenset({"agent", "path", "summary", "issue"})


class _ResponseReader:
    """Checks the rules of the XSD and returns documents of the JSON form. It ignores additions of newer versions."""

    def __init__(self, notes: Notes, *, is_newer: bool) -> None:
        self._notes = notes
        self._is_newer = is_newer
        self._readers: dict[str, Callable[[_Element], object]] = {
            "findings": self._list,
            "results": self.record,
            "files": self._list,
            "agent_specific": self._specific,
        }

    def record(self, element: _Element) -> dict[str, object]:
        """Return attributes and children by name: each at most once, in any order, without text between them."""
        rule = _RECORDS[element.name]
        document: dict[str, object] = {**self._attributes(element, rule.attributes, rule.optional_attributes)}
        if element.text:
            self._refuse(element.place, f"the text {excerpt(element.text)}", "elements only")
        parts: dict[str, _Element] = {}
        for child in self._known(element, (*rule.required, *rule.optional)):
            if child.name in parts:
                self._refuse(child.place, f"a second <{child.name}>", "one at most")
            parts[child.name] = child
        for name in rule.required:
            if name not in parts:
                self._refuse(element.place, "none", f"<{name}> inside")
        return document | {name: self._readers.get(name, self._leaf)(part) for name, part in parts.items()}

    def _attributes(
        self, element: _Element, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()
    ) -> dict[str, str]:
        given = element.attributes
        for name in required:
            if name not in given:
                self._refuse(element.place, "no such attribute", f"the attribute {name}")
            elif name in _NOT_BLANK and not given[name].strip(_BLANKS):
                self._refuse(f"{element.place} {name}", "nothing", "a text")
            elif name == "priority" and given[name] not in PRIORITIES:
                self._refuse(f"{element.place} priority", excerpt(given[name]), "P1, P2 or P3")
        known = (*required, *optional)
        for name in given.keys() - known:
            if not self._is_newer and not _NAMESPACE_ATTRIBUTE.fullmatch(name):
                expected = f"only {', '.join(sorted(known))}" if known else "none"
                self._refuse(element.place, f"the attribute {excerpt(name)}", expected)
        return {name: given[name] for name in known if name in given}

    def _leaf(self, element: _Element) -> str:
        self._attributes(element)
        self._known(element, ())
        if element.name in _NOT_BLANK and not element.text:
            self._refuse(element.place, "nothing", "a text")
        return element.text

    def _list(self, element: _Element) -> list[object]:
        self._attributes(element)
        listed: list[object] = []
        if element.text:
            self._notes.remark(RemarkKind.OLDER, element.place, "lines of text instead of elements")
            is_findings = element.name == "findings"
            listed += findings_in(element.text, self._notes, element.line) if is_findings else files_in(element.text)
        if element.name == "findings":
            return [*listed, *map(self.record, self._known(element, ("finding",)))]
        for file in self._known(element, ("file",)):
            path = self._attributes(file, ("path",))
            self._known(file, ())
            listed.append({**path, "relevance": file.text})
        return listed

    def _specific(self, element: _Element) -> JsonObject:
        if element.attributes.get("encoding") != "json":
            value = _as_json(element)
            return value if isinstance(value, dict) else {"text": value}
        try:
            return decode_object(element.text.encode())
        except NotIJson as error:
            self._notes.refuse(NotWellFormed(element.place, str(error), "one JSON object, as encoding says"))
            return {}

    def _known(self, element: _Element, names: tuple[str, ...]) -> list[_Element]:
        expected = " or ".join(f"<{name}>" for name in names) or "only text"
        for child in element.children:
            if child.name not in names and self._is_newer:
                self._notes.remark(RemarkKind.PASSED_OVER, child.place, "an element of a newer version")
            elif child.name not in names:
                self._refuse(child.place, "an unknown element", f"{expected} in <{element.name}>")
        return [child for child in element.children if child.name in names]

    def _refuse(self, place: str, found: str, expected: str) -> None:
        self._notes.refuse(UnexpectedContent(place, found, expected))


def _as_json(element: _Element) -> "JsonObject | str":
    """Return an agent's own element as JSON: attributes begin with `@`, repeated elements become a list."""
    if not element.children and not element.attributes:
        return element.text
    value: JsonObject = {f"@{name}": text for name, text in element.attributes.items()}
    if element.text:
        value["#text"] = element.text
    groups: dict[str, list[JsonObject | str]] = {}
    for child in element.children:
        groups.setdefault(child.name, []).append(_as_json(child))
    return value | {name: group[0] if len(group) == 1 else [*group] for name, group in groups.items()}
