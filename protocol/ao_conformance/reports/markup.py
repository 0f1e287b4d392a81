"""XML and HTML are built as trees, never as text: nothing that an executable wrote can become markup.

This is the only door to elements here, and every text that goes through it is made visible first.
"""

from collections.abc import Mapping
from typing import TypeAlias
from xml.etree import ElementTree

from ao_conformance.reports.visible import visible

Element: TypeAlias = ElementTree.Element
Content: TypeAlias = Element | str


def element(tag: str, attributes: Mapping[str, str] | None = None, *content: Content) -> Element:
    """Return an element with what stands in it: elements and texts, in that order."""
    made = ElementTree.Element(tag, {name: visible(value) for name, value in (attributes or {}).items()})
    last: Element | None = None
    for piece in content:
        if isinstance(piece, str):
            text = visible(piece)
            if last is None:
                made.text = (made.text or "") + text
            else:
                last.tail = (last.tail or "") + text
        else:
            made.append(piece)
            last = piece
    return made


def xml_text(root: Element) -> str:
    """Return an XML document, indented."""
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def html_document(root: Element) -> str:
    """Return an HTML document."""
    return f"<!DOCTYPE html>\n{ElementTree.tostring(root, encoding='unicode', method='html')}\n"
