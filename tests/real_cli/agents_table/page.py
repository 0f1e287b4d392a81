"""The table as Markdown: one row for each promise, one column for each agent, and the reasons below."""

import re
from collections.abc import Mapping
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


SEEN_ON: Final = "seen on"
VERSION: Final = "version"
Shown = Mapping[str, str]
"""What the table shows of an agent, by row: `yes`, `not tried`, or the reason of a `no`."""


@dataclass(frozen=True)
class Column:
    """What was seen of an agent.

    Args:
        agent: The agent.
        version: That of the program behind it; empty if it is not installed.
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

    def shown(self, day: str) -> Shown:
        """Return what the table shows, seen on this day."""
        cells = {row: self.why_not(row) for row in ROWS}
        told = {row: "not tried" if why is None else _reason(why, self.agent.name) for row, why in cells.items()}
        return {VERSION: self.version, SEEN_ON: day, **{row: text or "yes" for row, text in told.items()}}


def table_of(columns: Mapping[Agent, Shown]) -> str:
    """Return the table, with the reasons below."""
    reasons: dict[str, int] = {}
    lines = [
        BEGIN,
        "",
        "| | " + " | ".join(f"[{agent.name}]({agent.page})" for agent in columns) + " |",
        "| --- " * (len(columns) + 1) + "|",
    ]
    for row in (VERSION, SEEN_ON, *ROWS):
        texts = [shown.get(row, "not tried") for shown in columns.values()]
        plain = row not in ROWS
        cells = [text if plain or text in ("yes", "not tried") else _numbered(text, reasons) for text in texts]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    lines += ["", *(f"{number}. {reason}" for reason, number in reasons.items()), "", END]
    return "\n".join(lines)


def _numbered(reason: str, reasons: dict[str, int]) -> str:
    return f"no [{reasons.setdefault(reason, len(reasons) + 1)}]"


def standing_in(document: str) -> dict[str, Shown]:
    """Return by agent what the table of a page shows; empty without a table."""
    table = document.partition(BEGIN)[2].partition(END)[0]
    reasons = dict(re.findall(r"^(\d+)\. (.+)$", table, re.MULTILINE))
    rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines() if line[:1] == "|"
    ]
    names = [found[1] if (found := re.match(r"\[([\w-]+)\]", cell)) else "" for cell in rows[0]] if rows else []
    shown: dict[str, dict[str, str]] = {name: {} for name in names if name}
    for row in rows[2:]:
        for name, cell in zip(names[1:], row[1:], strict=True):
            found = re.fullmatch(r"no \[(\d+)\]", cell)
            shown[name][row[0]] = reasons[found[1]] if found else cell
    return dict(shown)


def _reason(why: str, name: str) -> str:
    """Return a reason as one line of Markdown, without what differs from run to run and from agent to agent."""
    line = re.sub(r"; (?:it has|use) \w+(?:,| or) .*|; use \w+$", "", " ".join(why.split()))
    line = re.sub(r"\b(ses|run)_[0-9a-f]+", r"\1_…", line)
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
