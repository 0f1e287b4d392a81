"""JSON as providers write it: letters as they are, and not escaped."""

import json
import re
from typing import Final

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def json_text(document: object) -> str:
    """Return a document as JSON that UTF-8 can hold: of all letters only a lone surrogate is escaped."""
    text = json.dumps(document, ensure_ascii=False)
    return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
