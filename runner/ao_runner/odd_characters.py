"""Characters that steer a terminal, or that hide, reorder or erase text in what others have written."""

import re
from typing import Final

# Controls but tab and newline, marks of direction, invisible characters, tags, and halves of surrogate pairs.
ODD: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Return the text with the characters that hide, reorder or erase text as `⟨U+202E⟩`; line ends and tabs stay."""
    return ODD.sub(lambda found: f"\u27e8U+{ord(found[0]):04X}\u27e9", text)
