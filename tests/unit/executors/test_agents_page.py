"""The table of docs/agents.md says what the executors declare."""

import re
from pathlib import Path
from typing import Any

import pytest

from ao_executors.acp.acp_executors import description_of
from ao_executors.acp.agent_rows import CLAUDE
from ao_executors.claude_code.claude_executor import DESCRIPTION as CLAUDE_CODE
from ao_executors.codex.codex_executor import DESCRIPTION as CODEX
from ao_executors.command.command_executor import DESCRIPTION as COMMAND
from ao_executors.core.described import common_settings

PAGE = (Path(__file__).parents[3] / "docs/agents.md").read_text(encoding="utf-8")
CAPABILITIES, _, SETTINGS = PAGE.partition("\n## Settings with one meaning\n")
BY_NAME: dict[str, Any] = {
    "claude-code": CLAUDE_CODE,
    "codex": CODEX,
    "claude-acp": description_of(CLAUDE),
    "command": COMMAND,
}
DESCRIPTIONS: list[Any] = list(BY_NAME.values())
ROW = re.compile(r"\| (?P<head>`[a-z_`, ]+`[^|]*|strategies[^|]*) \| (?P<cells>.+) \|")


@pytest.mark.parametrize("column", range(len(DESCRIPTIONS)))
def test_the_table_says_what_the_executors_declare(column: int) -> None:
    capabilities = DESCRIPTIONS[column]["capabilities"]
    compared = set()
    for line in CAPABILITIES.splitlines():
        if row := ROW.fullmatch(line):
            cell = row["cells"].split(" | ")[column]
            if row["head"].startswith("strategies"):
                assert cell.split(", ") == capabilities["output_schema"]["strategies"]
                continue
            for name in re.findall(r"`([a-z_]+)`", row["head"]):
                assert (cell != "no") is bool(capabilities.get(name)), f"{name} is {cell}"
                compared.add(name)
    assert compared >= {name for name, value in capabilities.items() if value is True}


def test_the_table_says_which_settings_an_executor_knows() -> None:
    rows = [line.strip("|").split("|") for line in SETTINGS.splitlines() if line.startswith("|")]
    agents = [re.sub(r"\W*([\w-]+).*", r"\1", cell) for cell in rows[0][1:]]
    said = {
        (agent, row[0].strip(" `"))
        for row in rows[2:]
        for agent, cell in zip(agents, row[1:], strict=True)
        if cell.strip() != "no"
    }
    assert said == {
        (agent, name)
        for agent in agents
        for name in common_settings()
        if name in BY_NAME[agent]["config_schema"]["properties"]
    }
