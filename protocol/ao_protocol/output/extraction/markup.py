"""Read the fence marks, tags and lone scalars that stand at a given place in the text."""

import re
from dataclasses import dataclass
from typing import Final

from ao_protocol.output.extraction.grammar import SCALAR
from ao_protocol.output.extraction.regions import FenceKind
from ao_protocol.output.extraction.skim import end_of
from ao_protocol.output.extraction.vocabulary import DOCUMENT_LANGUAGES, KNOWN_TAGS


@dataclass(frozen=True, slots=True)
class FenceMark:
    """Fence marks: what they may do, and where to go on. Only a bare mark may close a fence."""

    marks: str
    end: int
    kind: FenceKind
    bare: bool
    may_open: bool


@dataclass(frozen=True, slots=True)
class TagMark:
    """A tag, and the place behind it. The name is empty where it is none that says anything here."""

    name: str
    end: int
    closing: bool


def read_fence(text: str, at: int) -> FenceMark | None:
    """Return the fence mark at `at`, or None where the marks belong to inline code.

    CommonMark wants fences at the start of a line; models also begin them at the end of one, and put the
    value on the same line.
    """
    run = _FENCE_MARKS.match(text, at)
    if run is None:
        return None
    end = end_of(_INFO, text, run.end())
    info = text[run.end() : end].strip()
    ends_line = end == len(text) or text[end] == "\n"
    if _begins_line(text, at):
        may_open = ends_line or (text[end] in "{[" and len(info.split()) <= 1)
    else:
        is_tagged_or_bare = _LANGUAGE_ONLY.match(text, run.end()) is not None
        may_open = is_tagged_or_bare and not _NO_OPENING.search(text, max(0, at - _LONGEST_INDENT), at)
    bare = ends_line and not info
    if not may_open and not bare:
        return None
    return FenceMark(run[0], end, _kind_of(info), bare, may_open)


def read_tag(text: str, at: int) -> TagMark | None:
    """Return the tag at `at`; of every kind, since what stands in its attributes is no value."""
    match = _TAG.match(text, at) or _BRACKET_TAG.match(text, at)
    if match is None:
        return None
    name = match["name"].rpartition(":")[2].lower().replace("-", "_")
    known = name in KNOWN_TAGS and not match[0].endswith("/>")
    return TagMark(name if known else "", match.end(), closing=bool(match["closing"]))


def read_scalar(text: str, at: int) -> tuple[int, int] | None:
    """Return the span of the scalar that is all that a region beginning at `at` holds."""
    match = _LONE_SCALAR.match(text, at)
    return match.span(1) if match is not None else None


def _begins_line(text: str, at: int) -> bool:
    start = max(0, at - _LONGEST_INDENT)
    line = text.rfind("\n", start, at)
    if line < 0 and start > 0:
        return False
    return _LINE_BEGINNING.fullmatch(text, line + 1, at) is not None


def _kind_of(info: str) -> FenceKind:
    language = info.lower()
    if "json" in language or language.partition(" ")[0] in DOCUMENT_LANGUAGES:
        return FenceKind.JSON
    return FenceKind.CODE


_LONGEST_INDENT: Final = 80
_FENCE_MARKS: Final = re.compile(r"`{3,}+|~{3,}+")
_INFO: Final = re.compile(r"[^\n`{\[]{0,200}+")
_LINE_BEGINNING: Final = re.compile(r"\s*+(?:>\s*+)*+(?:(?:[-*+]|[0-9]{1,3}[.)])\s++)?+")
_LANGUAGE_ONLY: Final = re.compile(r"(?:[A-Za-z][\w+#-]*+)?+[ \t\r]*+(?:\n|\Z)")
_NO_OPENING: Final = re.compile(r"[}\]]\s*\Z|```[^\n]*\Z")
_ATTRIBUTE: Final = r"""\s++[\w:.-]++(?:\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'|[^\s"'<>{}\[\]]++))?+"""
_TAG: Final = re.compile(rf"<(?P<closing>/?)(?P<name>[A-Za-z][\w:.-]*+)(?:{_ATTRIBUTE})*+\s*+/?+>")
_BRACKET_TAG: Final = re.compile(r"[◁\[](?P<closing>/?)(?P<name>think|THINK)[▷\]]")
_LONE_SCALAR: Final = re.compile(rf"\s*+({SCALAR})\s*+(?=`{{3}}|~{{3}}|</|◁/|\Z)")
