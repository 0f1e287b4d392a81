"""Where in a text a response may begin, and where one that stands in a fence ends."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, TypeAlias

from ao_protocol.output.agent_response.front_matter import FRONT_MATTER
from ao_protocol.output.agent_response.model import Form

MAX_ATTEMPTS: Final = 8
"""A text may name the element before it begins it; every attempt may read the whole text."""

Candidate: TypeAlias = tuple[int, Form]

_PROLOG: Final = re.compile(r"<(?:\?xml|!DOCTYPE)")
_BEFORE_A_PROLOG: Final = re.compile(r"(?:\A|```(?:xml)?[ \t]*\n)\s*\Z")
_LONGEST_FENCE: Final = 100
ROOT_TAG: Final = re.compile(r"<agent_response(?=[\s/>])")
_JSON_OBJECT: Final = re.compile(r"""\{\s*["'“”]""")
_NAMES_IN_JSON: Final = tuple(f"{left}{name}" for name in ("agent", "summary") for left in "\"'“")
_FENCE_BEFORE: Final = re.compile(r"(`{3,}|~{3,})[A-Za-z]*[ \t]*\n\s*\Z")


def candidates_in(text: str) -> Iterator[Candidate]:
    """Yield the places where a response may begin, in their order."""
    begin = len(text) - len(text.lstrip())
    if ROOT_TAG.match(text, begin):
        # It is first whatever follows, and what follows need not be searched unless it cannot be read.
        yield begin, Form.XML
    found = [(match.start(), Form.XML) for match in islice(_PROLOG.finditer(text), MAX_ATTEMPTS) if _is_first(match)]
    found += [(match.start(), Form.XML) for match in islice(ROOT_TAG.finditer(text, begin + 1), MAX_ATTEMPTS)]
    if "agent:" in text:
        found += [(match.start(), Form.MARKDOWN) for match in [FRONT_MATTER.search(text)] if match]
    if any(name in text for name in _NAMES_IN_JSON):
        found += [(match.start(), Form.JSON) for match in [_JSON_OBJECT.search(text)] if match]
    yield from sorted(found)


def _is_first(prolog: re.Match[str]) -> bool:
    start = max(0, prolog.start() - _LONGEST_FENCE)
    return _BEFORE_A_PROLOG.search(prolog.string, start, prolog.start()) is not None


def within_its_fence(text: str, start: int) -> tuple[str, int | None]:
    """Return the Markdown that begins at `start`, and where perhaps another response begins behind it.

    What stands in a fence goes up to its last mark, since a response may hold fences itself, but not beyond another
    fence that begins with front matter. Line feeds stand for what was before, so that places are those of the text.
    """
    before = "\n" * text.count("\n", 0, start)
    fence = _fence_before(text, start)
    if fence is None:
        return before + text[start:], None
    mark = f"\n{fence[1]}\n"
    behind = islice(FRONT_MATTER.finditer(text, start + 1), MAX_ATTEMPTS)
    fences_behind = (_fence_before(text, match.start()) for match in behind)
    another = next((found.start() for found in fences_behind if found is not None), None)
    end = text.rfind(mark, start, another)
    if end < 0 and another is not None:
        another, end = None, text.rfind(mark, start)
    if another is None and text.endswith(mark[:-1]):
        end = len(text) - len(mark) + 1
    return before + text[start : end if end >= 0 else len(text)], another


def _fence_before(text: str, position: int) -> re.Match[str] | None:
    return _FENCE_BEFORE.search(text, max(0, position - _LONGEST_FENCE), position)
