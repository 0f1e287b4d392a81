r"""The text with which a parent agent hears of its children: one block for each, which nothing inside can close.

| child | content |
| --- | --- |
| completed, with `result_data` | that, as indented JSON |
| completed, with `result_text` | that |
| failed | the error's type and message, if it has one, else as a completed one |

In JSON a tag of the block is written with `\u003c`, which JSON reads as `<`; in other text with `&lt;`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, Literal

from pydantic import JsonValue

NO_RESULT: Final = "(No result available)"

_BLOCK_TAG: Final = re.compile(r"<(?=\s*(?:/\s*)?agent-callback)", re.IGNORECASE)
_LINE_END: Final = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")


@dataclass(frozen=True, slots=True)
class ChildOutcome:
    """How the run of a child ended: `result` is its terminal event, or what was stored of it."""

    session: str
    status: Literal["completed", "failed"]
    result: Mapping[str, JsonValue]


def format_child_result(result: Mapping[str, JsonValue]) -> str:
    """Return `result_data` as indented JSON, else `result_text`, else `(No result available)`."""
    data = result.get("result_data")
    if data is not None:
        return json.dumps(data, indent=2, ensure_ascii=False)
    text = result.get("result_text")
    return text if isinstance(text, str) and text else NO_RESULT


def format_callback(child: ChildOutcome) -> str:
    """Return the `<agent-callback>` of one child."""
    opening = f'<agent-callback session="{_attribute(child.session)}" status="{child.status}">'
    return f"{opening}\n{_content(child)}\n</agent-callback>"


def format_callbacks(children: Sequence[ChildOutcome]) -> str:
    """Return the aggregated form: `<agent-callbacks>` with how many there are, around one block for each child."""
    failed = sum(child.status == "failed" for child in children)
    opening = f'<agent-callbacks count="{len(children)}" failed="{failed}">'
    return "\n".join((opening, *map(format_callback, children), "</agent-callbacks>"))


def _content(child: ChildOutcome) -> str:
    error = child.result.get("error") if child.status == "failed" else None
    if isinstance(error, dict) and error.get("message"):
        return _BLOCK_TAG.sub("&lt;", f"{error.get('type', 'error')}: {error['message']}")
    is_json = child.result.get("result_data") is not None
    return _BLOCK_TAG.sub(r"\\u003c" if is_json else "&lt;", format_child_result(child.result))


def _attribute(text: str) -> str:
    return escape(_LINE_END.sub(" ", text), quote=True)
