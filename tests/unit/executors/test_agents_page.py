"""The tables of docs/agents.md: what was seen is what the executors declare, and no cell says more."""

import re
from pathlib import Path
from typing import Any

import pytest

from ao_executors.acp.acp_executors import description_of
from ao_executors.acp.agent_rows import CLAUDE, GEMINI, OPENCODE, QWEN
from ao_executors.claude_code.claude_executor import DESCRIPTION as CLAUDE_CODE
from ao_executors.codex.codex_executor import DESCRIPTION as CODEX
from ao_executors.command.command_executor import DESCRIPTION as COMMAND
from ao_executors.core.described import common_settings
from ao_executors.procedural.procedural_executor import DESCRIPTION as PROCEDURAL
from tests.real_cli.agents_table.known_agents import AGENTS
from tests.real_cli.agents_table.page import BEGIN, END, ROWS, Column, document_with, standing_in, table_of
from tests.real_cli.agents_table.probing import declared_in

PAGE = (Path(__file__).parents[3] / "docs/agents.md").read_text(encoding="utf-8")
SETTINGS = PAGE.partition("\n## Settings with one meaning\n")[2]
BY_NAME: dict[str, Any] = {
    "claude-code": CLAUDE_CODE,
    "codex": CODEX,
    "claude-acp": description_of(CLAUDE),
    "gemini": description_of(GEMINI),
    "opencode": description_of(OPENCODE),
    "qwen": description_of(QWEN),
    "command": COMMAND,
    "procedural": PROCEDURAL,
}


def rows_of(table: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]


def agents_in(cells: list[str]) -> list[str]:
    return [re.sub(r"\W*([\w-]+).*", r"\1", cell) for cell in cells[1:]]


SEEN = PAGE.partition(BEGIN)[2].partition(END)[0]
HEAD, _, *SEEN_ROWS = rows_of(SEEN)


@pytest.mark.parametrize("name", BY_NAME)
def test_what_was_seen_is_what_an_executor_declares(name: str) -> None:
    column = agents_in(HEAD).index(name) + 1
    cells = {row[0]: row[column] for row in SEEN_ROWS}
    declared = declared_in(BY_NAME[name])
    said = {row: cells[row] == "yes" for row in ROWS if row in declared or row.startswith(("strategy", "setting"))}

    assert said == {row: declared.get(row, False) for row in said}


def test_each_no_has_its_reason() -> None:
    numbers = {int(number) for row in SEEN_ROWS for cell in row for number in re.findall(r"\[(\d+)\]$", cell)}
    reasons = {int(number) for number in re.findall(r"^(\d+)\. \S", SEEN, re.MULTILINE)}

    assert numbers == reasons == set(range(1, len(reasons) + 1))
    assert {cell for row in SEEN_ROWS[2:] for cell in row[1:]} <= {"yes", "not tried", *(f"no [{n}]" for n in numbers)}


def test_a_cell_is_what_was_seen_and_a_fault_is_told() -> None:
    agent = AGENTS[0]
    declared = {"`resume`": True, "`cancel`": True, "`trace`": False}
    seen = Column(
        agent, "1.0", {"`cancel`": "", "`trace`": "no | header"}, {"resume": "boom\n  at /a/b/c.py"}, declared
    )
    table = table_of({agent: seen.shown("2026-01-02")})

    assert "| `cancel` | yes |" in table
    assert "| `trace` | no [1] |" in table
    assert "| `resume` | no [2] |" in table
    assert "| `streaming` | not tried |" in table
    assert "1. no \\| header\n2. boom at …/c.py\n" in table
    assert seen.unkept == {"`resume`": "boom\n  at /a/b/c.py"}
    assert document_with(f"before\n{BEGIN}\nold\n{END}\nafter", table) == f"before\n{table}\nafter"
    assert table_of({agent: standing_in(table)[agent.name]}) == table


def test_the_table_says_which_settings_an_executor_knows() -> None:
    rows = rows_of(SETTINGS)
    agents = agents_in(rows[0])
    said = {
        (agent, row[0].strip(" `"))
        for row in rows[2:]
        for agent, cell in zip(agents, row[1:], strict=True)
        if cell != "no"
    }
    assert said == {
        (agent, name)
        for agent in agents
        for name in common_settings()
        if name in BY_NAME[agent]["config_schema"]["properties"]
    }
