"""The prompt that tells a parent agent how the runs of its children have ended: one block for each child.

Nothing that a child says can close its block or open another: there, the `<` of a tag of a block is written `&lt;`.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

NO_RESULT: Final = "(No result available)"
STOPPED: Final = "Session was manually stopped"
"""What a parent hears of a child that was cancelled."""

_COMPLETED: Final = """<agent-callback session="{}" status="completed">
## Child Result

{}
</agent-callback>

Please continue with the orchestration based on this result."""
_FAILED: Final = """<agent-callback session="{}" status="failed">
## Error

{}
</agent-callback>

Please handle this failure and continue with the orchestration."""
_SEVERAL: Final = """<agent-callback type="aggregated" count="{}">
{}
</agent-callback>

Please continue with the orchestration based on these results."""
_BLOCK_TAG: Final = re.compile(r"<(?=\s*/?\s*agent-callback)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How the run of a child ended: its session, and the text of its result or of its error."""

    session_id: str
    said: str
    has_failed: bool = False


def text_of_result(result_text: str | None, result_data: JsonValue) -> str:
    """Return `result_data` as indented JSON, else `result_text`, else `(No result available)`."""
    if result_data is not None:
        return json.dumps(result_data, indent=2)
    return result_text or NO_RESULT


def callback_prompt(children: Sequence[ChildEnd]) -> str:
    """Return the prompt for the ends of one child or more. Children that share a prompt are in one aggregated block."""
    said = [_BLOCK_TAG.sub("&lt;", child.said) for child in children]
    if len(children) == 1:
        return (_FAILED if children[0].has_failed else _COMPLETED).format(children[0].session_id, said[0])
    parts = [
        f"### Child: {child.session_id} (status: {'failed' if child.has_failed else 'completed'})\n\n{text}"
        for child, text in zip(children, said, strict=True)
    ]
    return _SEVERAL.format(len(children), "\n\n---\n\n".join(parts))
