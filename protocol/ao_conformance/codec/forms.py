"""What a question of each kind holds and which fields of its answer are compared: one table, also told in the docs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of one kind of vector, by what becomes of them."""

    asked: tuple[str, ...]
    """They go into the question."""
    answered: tuple[str, ...]
    """The answer has each of them that the vector has, with the same value; compared in this order."""
    only: tuple[str, ...] = ()
    """The answer has them only where the vector has them; `null` and `false` are as good as absent."""


JUDGED_DOCUMENT: Final = Form(("document",), ("valid", "problem_at"))

FORMS: Final[Mapping[str, Form]] = {
    "line": Form(("line", "line_base64"), ("valid", "reason", "read_as")),
    "framing": Form(("max_line_bytes", "chunks_base64"), ("lines", "ended_mid_line")),
    "invocation": Form(("document",), ("valid", "error", "details", "problem_at", "announces")),
    "upgrade": Form(("document",), ("upgraded",)),
    "event": JUDGED_DOCUMENT,
    "description": JUDGED_DOCUMENT,
    "control_line": Form(("document",), ("valid", "problem_at", "ignored"), only=("ignored",)),
    "conversation": Form(("invocation", "events"), ("valid", "fault", "fault_at")),
    "exit_code": Form(("terminal",), ("exit_code",)),
    "inputs": Form(("mode", "parameters_schema", "parameters"), ("text", "problem_at"), only=("text", "problem_at")),
    "contract": Form(("demanded",), ("holds", "error", "problem"), only=("holds", "error")),
    "enrichment": Form(("system_prompt", "output_schema"), ("enriched",)),
}

AS_SET: Final = frozenset({"problem_at"})
"""Lists whose order and repetitions mean nothing."""
AS_PIECE: Final = frozenset({"problem"})
"""Texts of which the vector has a piece. Their wording is free, so an answer may do without."""
