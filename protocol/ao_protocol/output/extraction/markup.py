"""Read the fence marks, tags and lone scalars that stand at a given place in the text."""

import re
from dataclasses import dataclass
from typing import Final

from ao_protocol.output.extraction.grammar import SCALAR
from ao_protocol.output.extraction.regions import FenceKind
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
    info_end = _INFO_ENDS.search(text, run.end())
    end = len(text) if info_end is None else info_end.start()
    info = text[run.end() : end].strip()
    ends_line = info_end is None or info_end[0] == "\n"
    words = info.split()
    if _begins_line(text, at):
        may_open = ends_line or (not text.startswith("`", end) and len(words) <= 1)
    else:
        may_open = ends_line and len(words) <= 1 and not _VALUE_ENDS.search(text, max(0, at - 40), at)
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
_INFO_ENDS: Final = re.compile(r"[\n`{\[]")
_LINE_BEGINNING: Final = re.compile(r"\s*+(?:>\s*+)*+(?:(?:[-*+]|[0-9]{1,3}[.)])\s++)?+")
_VALUE_ENDS: Final = re.compile(r"[}\]]\s*\Z")
_ATTRIBUTE: Final = r"""\s++[\w:.-]++(?:\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'|[^\s"'<>{}\[\]]++))?+"""
_TAG: Final = re.compile(rf"<(?P<closing>/?)(?P<name>[A-Za-z][\w:.-]*+)(?:{_ATTRIBUTE})*+\s*+/?+>")
_BRACKET_TAG: Final = re.compile(r"[◁\[](?P<closing>/?)(?P<name>think|THINK)[▷\]]")
_LONE_SCALAR: Final = re.compile(rf"\s*+({SCALAR})\s*+(?=`{{3}}|~{{3}}|</|◁/|\Z)")
