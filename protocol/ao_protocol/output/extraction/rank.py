"""How much the place of a value says that it is the answer."""

import re
from enum import IntEnum
from typing import Final

from ao_protocol.output.extraction.candidates import Candidate
from ao_protocol.output.extraction.regions import FenceKind


class Rank(IntEnum):
    """Best first. A value of a later rank is taken only when no earlier one gives a valid value."""

    TAG = 0
    FENCE = 1
    BARE = 2
    CODE = 3
    ASIDE = 4
    """Quoted, presented as an example, or part of prose: an index, a citation, the text of a link."""


def rank_of(text: str, candidate: Candidate, *, schema_known: bool) -> Rank:
    """Rank a value by its place. Without a schema nothing else tells a citation from an answer."""
    region = candidate.region
    if region is not None and region.in_answer:
        return Rank.TAG
    in_fence = region is not None and region.fence is not FenceKind.NONE
    introduced_at = region.introduced_at if region is not None else None
    if _is_introduced_as_aside(text, candidate.start if introduced_at is None else introduced_at):
        return Rank.ASIDE
    if in_fence and region is not None:
        return Rank.FENCE if region.fence is FenceKind.JSON else Rank.CODE
    return Rank.ASIDE if _is_prose(text, candidate, schema_known) else Rank.BARE


def _is_introduced_as_aside(text: str, at: int) -> bool:
    start = max(0, at - _LONGEST_LEAD)
    lead = text[text.rfind("\n", start, at) + 1 or start : at]
    if _BLOCKQUOTE.match(lead):
        return True
    return _ASIDE.search(text, start, at) is not None


def _is_prose(text: str, candidate: Candidate, schema_known: bool) -> bool:
    start, end = candidate.start, candidate.end
    if start and (text[start - 1].isalnum() or text[start - 1] in "_])"):
        return True
    if text.startswith("(", end) and text.startswith("[", start):
        return True
    return not schema_known and end - start <= _LONGEST_CITATION and _CITATION.fullmatch(text, start, end) is not None


_LONGEST_LEAD: Final = 80
_LONGEST_CITATION: Final = 12
_CITATION: Final = re.compile(r"\[\s*[0-9]*\s*\]|\{\s*\}")
_BLOCKQUOTE: Final = re.compile(r"\s*>")
_ASIDE: Final = re.compile(
    r"(?:\b(?:example|sample|template|placeholder|draft|input|e\.g\.|for instance|such as)\b"
    r"[^.,;:!?{}\[\]\n]{0,30}[:,]?|\b(?:not|instead of|rather than))[\s*_`\"'(]*\Z",
    re.IGNORECASE,
)
