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

PAGE = Path(__file__).parents[3] / "docs/agents.md"
DESCRIPTIONS: list[Any] = [CLAUDE_CODE, CODEX, description_of(CLAUDE), COMMAND]
ROW = re.compile(r"\| (?P<head>`[a-z_`, ]+`[^|]*|strategies[^|]*) \| (?P<cells>.+) \|")


@pytest.mark.parametrize("column", range(len(DESCRIPTIONS)))
def test_the_table_says_what_the_executors_declare(column: int) -> None:
    capabilities = DESCRIPTIONS[column]["capabilities"]
    compared = set()
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if row := ROW.fullmatch(line):
            cell = row["cells"].split(" | ")[column]
            if row["head"].startswith("strategies"):
                assert cell.split(", ") == capabilities["output_schema"]["strategies"]
                continue
            for name in re.findall(r"`([a-z_]+)`", row["head"]):
                assert (cell != "no") is bool(capabilities.get(name)), f"{name} is {cell}"
                compared.add(name)
    assert compared >= {name for name, value in capabilities.items() if value is True}
