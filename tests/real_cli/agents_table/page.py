"""The table as Markdown: one row for each promise, one column for each agent, and the reasons below."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.real_cli.agents_table.known_agents import Agent

BEGIN: Final = "<!-- made by `python -m tests.real_cli.agents_table --write` -->"
END: Final = "<!-- end of the table -->"
_REASON_CHARACTERS: Final = 260
ROWS: Final = {
    "wrong answer, asked again, right answer": "blueprint",
    "parameters": "blueprint",
    "system prompt": "blueprint",
    "MCP server, a program": "blueprint",
    "MCP server, HTTP": "blueprint",
    "`attachments`: a PNG": "blueprint",
    "reasoning": "blueprint",
    "usage in tokens": "blueprint",
    "cost in USD": "blueprint",
    "`trace`": "blueprint",
    "`max_turns`": "turn-limit",
    "`max_cost_usd`": "cost-limit",
    "`resume`": "resume",
    "`multi_turn`": "turns",
    "`prepare`": "turns",
    "`cancel`": "cancel",
    "`streaming`": "cancel",
    "`check`": "check",
    "`input`": "questions",
    "`input_parking`": "parking",
    **dict.fromkeys(
        (f"strategy `{name}`" for name in ("system_prompt", "prompt", "extract", "native", "tool")), "strategies"
    ),
    "setting `show_reasoning`": "strategies",
    **dict.fromkeys(
        (f"setting `{name}`" for name in ("model", "reasoning_effort", "access", "additional_folders")), "settings"
    ),
    "setting `allowed_tools`": "allowed-tools",
}
"""The rows in their order, each with the probe that fills it."""


@dataclass(frozen=True)
class Column:
    """What was seen of an agent.

    Args:
        agent: The agent.
        version: That of the program behind it.
        cells: By row: empty for `yes`, else the reason of a `no`.
        faults: By probe that saw nothing: the run's own error.
        declared: By row: whether `describe` has it.
        seconds: By probe.
    """

    agent: Agent
    version: str
    cells: Mapping[str, str]
    faults: Mapping[str, str]
    declared: Mapping[str, bool]
    seconds: Mapping[str, float] = field(default_factory=dict)

    def why_not(self, row: str) -> str | None:
        """Return the reason of a `no`; empty for a `yes`, None for what was not tried."""
        return self.cells.get(row, self.faults.get(ROWS[row]))

    @property
    def unkept(self) -> dict[str, str]:
        """What the executor declares and was not seen, with the reason."""
        tried = {row: self.why_not(row) for row in ROWS if self.declared.get(row)}
        return {row: why for row, why in tried.items() if why}


def table_of(columns: Sequence[Column], made: str) -> str:
    """Return the table with its reasons; `made` says when and where it was made."""
    reasons: dict[str, int] = {}
    lines = [
        BEGIN,
        "",
        f"| {made} | " + " | ".join(f"[{one.agent.name}]({one.agent.page})" for one in columns) + " |",
        "| --- " * (len(columns) + 1) + "|",
        "| version | " + " | ".join(one.version for one in columns) + " |",
    ]
    for row in ROWS:
        cells = [_cell(column, row, reasons) for column in columns]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    lines += ["", *(f"{number}. {reason}" for reason, number in reasons.items()), "", END]
    return "\n".join(lines)


def _cell(column: Column, row: str, reasons: dict[str, int]) -> str:
    why = column.why_not(row)
    if why is None:
        return "not tried"
    if not why:
        return "yes"
    return f"no [{reasons.setdefault(_reason(why, column.agent.name), len(reasons) + 1)}]"


def _reason(why: str, name: str) -> str:
    """Return a reason as one line of Markdown, without what differs from run to run and from agent to agent."""
    line = re.sub(r"; (?:it has|use) \w+(?:,| or) .*|; use \w+$", "", " ".join(why.split()))
    line = re.sub(rf"(?<![\w-]){name}(?![\w-])", "NAME", line)
    line = re.sub(r"(?:/[\w.@+-]+){2,}", lambda found: f"…/{found[0].rpartition('/')[2]}", line)
    line = line if len(line) <= _REASON_CHARACTERS else f"{line[: _REASON_CHARACTERS - 1]}…"
    return line.replace("|", "\\|").replace("<", "&lt;")


def document_with(document: str, table: str) -> str:
    """Return a page whose table is replaced.

    Raises:
        ValueError: The page has not both marks.
    """
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no lines {BEGIN!r} and {END!r}")
    return before + table + after
