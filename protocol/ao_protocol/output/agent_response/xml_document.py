"""Read one XML element out of a text, safely: no document type, no entity, no processing instruction, with limits.

Nothing outside the text is ever looked up and nothing is expanded but character references and the five names that XML
knows, so the time is linear in the text. Reading ends with the element: what follows it is not looked at.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn
from xml.parsers import expat

from ao_protocol.output.agent_response.refusals import NotWellFormed, ResponseTooDeep, ResponseTooLarge, UnsafeXml

XML_BLANKS: Final = " \t\n\r"
"""A carriage return can still come as a reference."""
MAX_XML_DEPTH: Final = 64
MAX_ELEMENTS: Final = 200_000
"""Bounds memory: an empty element of four characters takes some hundred bytes when it was read."""


@dataclass(slots=True)
class Element:
    """An element of a document that was read; `line` counts from the beginning of the whole text.

    `text` is what stands directly inside, without that of the children and without blanks at its ends.
    """

    name: str
    attributes: dict[str, str]
    line: int
    children: tuple["Element", ...]
    text: str

    @property
    def place(self) -> str:
        """Where the element stands, for a message."""
        return f"line {self.line}, <{self.name}>"

    def walk(self) -> Iterator["Element"]:
        """Yield this element and all below it, parents before their children."""
        pending = [self]
        while pending:
            element = pending.pop()
            yield element
            pending.extend(element.children)


def read_element(text: str, start: int = 0) -> Element:
    """Return the element that begins at `start`, after what may stand before a root element.

    Raises:
        NotWellFormed: with line and column.
        UnsafeXml: at the first declaration or instruction.
        ResponseTooDeep, ResponseTooLarge: at the first element too much.
    """
    builder = _Builder(text.count("\n", 0, start))
    try:
        builder.feed(text[start:])
    except _RootEnded:
        return builder.root
    except expat.ExpatError as error:
        raise NotWellFormed(
            f"line {builder.first_line + error.lineno}, column {error.offset + 1}",
            f"XML that is not well-formed ({expat.ErrorString(error.code)})",
            "one complete element in which & is written &amp; and < is written &lt;",
        ) from error
    raise AssertionError("a parser that met no root element says so")


class _RootEnded(Exception):
    """The element is complete."""


class _Open(NamedTuple):
    """An element that has not ended. What it holds is collected here, so that an ended one is small."""

    name: str
    attributes: dict[str, str]
    line: int
    children: list[Element]
    pieces: list[str]


class _Builder:
    """Builds the elements while expat reads; expat calls, so no depth of nesting costs stack."""

    root: Element

    def __init__(self, first_line: int) -> None:
        self.first_line = first_line
        self._open: list[_Open] = []
        self._count = 0
        # The text is characters already: an encoding that the document claims is of no interest.
        self._parser = parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._refuser("a document type declaration")
        parser.EntityDeclHandler = self._refuser("an entity declaration")
        parser.ExternalEntityRefHandler = self._refuser("an external entity")
        parser.ProcessingInstructionHandler = self._refuser("a processing instruction")

    def feed(self, text: str) -> None:
        self._parser.Parse(text.encode(), True)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        line = self.first_line + self._parser.CurrentLineNumber
        self._count += 1
        if self._count > MAX_ELEMENTS:
            place = f"line {line}, <{name}>"
            raise ResponseTooLarge(place, f"more than {MAX_ELEMENTS} elements", f"{MAX_ELEMENTS} at most")
        if len(self._open) >= MAX_XML_DEPTH:
            place = f"line {line}, <{name}>"
            raise ResponseTooDeep(place, "one more level", f"at most {MAX_XML_DEPTH} levels of elements")
        self._open.append(_Open(name, attributes, line, [], []))

    def _end(self, _name: str) -> None:
        name, attributes, line, children, pieces = self._open.pop()
        element = Element(name, attributes, line, tuple(children), "".join(pieces).strip(XML_BLANKS))
        if not self._open:
            self.root = element
            raise _RootEnded(name)
        self._open[-1].children.append(element)

    def _text(self, piece: str) -> None:
        self._open[-1].pieces.append(piece)

    def _refuser(self, what: str) -> Callable[..., NoReturn]:
        def refuse(*_: object) -> NoReturn:
            line = self.first_line + self._parser.CurrentLineNumber
            raise UnsafeXml(f"line {line}", what, "elements and text only")

        return refuse
