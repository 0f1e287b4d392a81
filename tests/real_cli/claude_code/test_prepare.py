"""A CLI that is started before the invocation is there (SPEC 4.5)."""

import pytest

from tests.process.executors.driver import ExecutorProcess, wait_until
from tests.real_cli.claude_code.claude import EXECUTOR, SEVERITY_SCHEMA, agent
from tests.real_cli.claude_code.conftest import StartClaude
from tests.real_cli.programs import CLAUDE_CLI


@pytest.mark.requirement("AOX-069")
def test_a_prepared_cli_asks_nobody_anything_and_performs_the_run(start_claude: StartClaude) -> None:
    claude = start_claude({"json": {"severity": "low"}})
    boots, counting_cli = claude.home / "boots", claude.home / "counting-claude"
    counting_cli.write_text(f'#!/bin/sh\necho boot >> {boots}\nexec {CLAUDE_CLI} "$@"\n')
    counting_cli.chmod(0o755)
    document = claude.invocation(
        agent_blueprint=agent(output_schema=SEVERITY_SCHEMA), executor_config={"cli_path": str(counting_cli)}
    )
    known = {name: value for name, value in document.items() if name not in {"run_id", "session_id", "parameters"}}
    with ExecutorProcess(EXECUTOR, env=claude.env) as executor:
        executor.write_line({"type": "prepare", "invocation": known})
        wait_until((claude.home / ".claude" / "sessions").exists)
        assert claude.model.all_requests == ()
        executor.write_line(document)
        ended = executor.finish()

    assert ended.types[:2] == ["run_started", "session_bound"]
    assert ended.terminal["result_data"] == {"severity": "low"}
    assert boots.read_text() == "boot\n"
