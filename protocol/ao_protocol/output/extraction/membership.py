"""Tell whether a value stands where a member of a larger value stands, judging by what is before it."""

import re
from typing import Final

from ao_protocol.output.extraction.breaks import Breaks


def is_piece(text: str, at: int, breaks: Breaks) -> bool:
    """Tell whether the value at `at` is a member of a value that broke before it."""
    if breaks.inside_value:
        return _lead_matches(_MEMBER_OF_OPEN, text, at)
    return breaks.behind_value and follows_members(text, at)


def follows_members(text: str, at: int) -> bool:
    """Tell whether a quoted key, or another member and a comma, stand right before `at`."""
    return _lead_matches(_MEMBER_AFTER_MEMBER, text, at)


def _lead_matches(pattern: re.Pattern[str], text: str, at: int) -> bool:
    lead = text[max(0, at - _LONGEST_LEAD) : at].rstrip()
    return pattern.search(lead) is not None


_LONGEST_LEAD: Final = 120
_MEMBER_AFTER_MEMBER: Final = re.compile(r"""(?:["'”]\s*[:：]|[}\]]\s*,)\Z""")
_MEMBER_OF_OPEN: Final = re.compile(r"""(?:["'”]\s*[:：]|[{,]\s*[\w$.-]{1,60}\s*[:：]|[\[,，(])\Z""")
