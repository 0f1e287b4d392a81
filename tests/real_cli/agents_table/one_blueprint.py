"""The blueprint that every agent of the table performs, and what a cell of the table is."""

from collections.abc import Sequence
from typing import Final

from tests.real_cli.agents_table.known_agents import PROGRAM

YES: Final = ""
"""A cell: seen. Any other text is the reason of a `no`."""
Cells = dict[str, str]
SYSTEM_PROMPT: Final = "You triage reports about a shop, by its stock and its prices."
REPORT: Final = "The till is broken, see the picture."
SCHEMA: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["severity", "report"],
    "properties": {"severity": {"type": "string", "enum": ["low", "high"]}, "report": {"type": "string"}},
}
BLUEPRINT: Final = {
    "name": "triage",
    "system_prompt": SYSTEM_PROMPT,
    "parameters_schema": {
        "type": "object",
        "required": ["report"],
        "additionalProperties": False,
        "properties": {"report": {"type": "string"}, "urgent": {"type": "boolean"}},
    },
    "output_schema": SCHEMA,
}
"""The one blueprint of the table."""
STOCK: Final = "Seven are in stock."
PRICE: Final = "It costs 4 euros."
THOUGHT: Final = {"type": "thinking", "thinking": "I look at both."}
WRONG: Final = {"severity": "huge", "report": REPORT}
RIGHT: Final = {"severity": "high", "report": REPORT}
TRACE: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

PROCEDURAL: Final = {name: part for name, part in BLUEPRINT.items() if name != "system_prompt"} | {
    "type": "procedural",
    "command": PROGRAM.name,
}
"""The same for a program that takes the parameters as arguments."""


def first_with(texts: Sequence[str], word: str, otherwise: str) -> str:
    """Return the first text that has a word."""
    return next((text for text in texts if word in text), otherwise)
