"""Tools of MCP servers by real agents: those of the blueprint, and `submit_answer` of the strategy `tool`."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import StartModel
from tests.process.executors.http_serving import serving_http
from tests.real_cli import mcp_lookup
from tests.real_cli.acp.test_what_agents_tell import ask, each_agent
from tests.real_cli.claude_code.claude import SEVERITY_SCHEMA

SHELLS = {"claude-acp": "Bash", "gemini": "run_shell_command", "opencode": "bash"}
TOUCH = {"command": "touch changed", "description": "mcp__near__lookup"}


def use(name: str, given: dict[str, Any]) -> dict[str, Any]:
    content = [{"type": "text", "text": "MARK"}, {"type": "tool_use", "name": name, "input": given}]
    return {"content": content}


@each_agent
@pytest.mark.requirement("AOX-183", "AOX-184", "AOX-185")
def test_an_agent_uses_the_tools_of_servers_and_nothing_else(
    agent: str, start_model: StartModel, tmp_path: Path
) -> None:
    between = "__" if agent == "claude-acp" else "_"
    model = start_model(
        use(f"near{between}lookup", {}),
        use(f"my_far{between}lookup", {}),
        use(SHELLS[agent], TOUCH),
        {**use("submit_answer", {"severity": "huge"}), "expect": {"schema_contains": "severity"}},
        use("submit_answer", {"severity": "high"}),
        {"text": "Done."},
    )
    with serving_http(mcp_lookup.answer) as url:
        near = {"command": sys.executable, "args": [mcp_lookup.__file__]}
        far = {"type": "http", "url": f"{url}/mcp", "headers": {"x-key": "k1"}}
        ended = ask(
            agent,
            model.url,
            tmp_path,
            {},
            agent_blueprint={"name": "a", "mcp_servers": {"near": near, "my far": far}},
            output_schema=SEVERITY_SCHEMA,
            output_schema_options={"strategy": "auto"},
        )

    statuses = [event["status"] for event in ended.of_type("tool_finished")]
    assert sorted(statuses) == ["completed", "completed", "denied"]
    assert not (tmp_path / "changed").exists()
    assert ended.terminal["result_data"] == {"severity": "high"}
    assert ended.terminal["output"] | {"ambiguous": False} == {
        "schema_source": "inline",
        "retry_count": 1,
        "ambiguous": False,
        "strategy": "tool",
        "sent": ["tool"],
        "delivered_by": "tool",
    }
    assert [event["valid"] for event in ended.of_type("output_validation")] == [False, True]
