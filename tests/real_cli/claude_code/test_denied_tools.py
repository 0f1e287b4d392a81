"""A call that the CLI does not allow: what would allow it, and when it ends the run."""

from pathlib import Path
from typing import Any

import pytest

from tests.real_cli.claude_code.conftest import StartClaude


def call(name: str, **tool_input: object) -> dict[str, object]:
    return {"content": [{"type": "tool_use", "id": "toolu_1", "name": name, "input": tool_input}]}


@pytest.mark.parametrize(
    ("asked", "config", "rule"),
    [
        pytest.param(call("Write", file_path="note", content="x"), {}, "Write", id="a file"),
        pytest.param(call("Bash", command="touch note"), {}, "Bash(touch *)", id="a command"),
        pytest.param(call("Bash", command="touch ../note && cat ../note"), {}, "Bash", id="commands"),
        pytest.param(
            call("Write", file_path="note", content="x"),
            {"permission_mode": "default"},
            "Write",
            id="asking nobody",
        ),
        pytest.param(call("Read", file_path="/etc/hosts"), {}, "Read", id="elsewhere"),
    ],
)
def test_a_denied_call_says_what_allows_it_and_that_does(
    start_claude: StartClaude, asked: dict[str, Any], config: dict[str, object], rule: str
) -> None:
    denied = start_claude(asked, {"text": "I may not."}).run(executor_config=config)
    allowed = start_claude(asked, {"text": "Done."}).run(executor_config={**config, "allowed_tools": [rule]})

    (finished,) = denied.of_type("tool_finished")
    quoted = f"'{rule}'" if "(" in rule else rule
    hint = f"allow it with --allow {quoted} (executor_config: allowed_tools)"
    assert (finished["status"], finished["error"]) == ("denied", hint)
    assert allowed.of_type("tool_finished")[0]["status"] == "completed"


def test_a_page_is_allowed_by_its_host(start_claude: StartClaude) -> None:
    asked = call("WebFetch", url="http://127.0.0.1:9/x", prompt="What?")
    run = start_claude(asked, {"text": "I may not."}).run()
    assert "--allow 'WebFetch(domain:127.0.0.1)'" in run.of_type("tool_finished")[0]["error"]


@pytest.mark.parametrize(
    ("asked", "config", "error"),
    [
        pytest.param(
            call("Bash", command="rm note"),
            {"disallowed_tools": ["Bash(rm *)"], "allowed_tools": ["Bash"]},
            "a rule denies it: take it out of disallowed_tools (Bash(rm *))",
            id="by a rule",
        ),
        pytest.param(
            call("Write", file_path="note", content="x"),
            {"disallowed_tools": ["Write"]},
            "it is not available: take Write out of disallowed_tools",
            id="not available",
        ),
        pytest.param(
            call("Write", file_path="note", content="x"),
            {"tools": ["Read"]},
            "it is not available: add Write to tools (executor_config)",
            id="left out",
        ),
        pytest.param(
            call("Write", file_path="note", content="x"),
            {"permission_mode": "plan"},
            "permission_mode plan changes nothing: use --access read and --allow Write in its place",
            id="while planning",
        ),
        pytest.param(
            call("Write", file_path=".git/config", content="x"),
            {"allowed_tools": ["Write"]},
            "Write is allowed, but not this: the CLI protects it except with --access all",
            id="protected",
        ),
    ],
)
def test_a_call_that_no_further_rule_allows_says_what_stands_against_it(
    start_claude: StartClaude, asked: dict[str, Any], config: dict[str, object], error: str
) -> None:
    run = start_claude(asked, {"text": "I may not."}).run(executor_config=config)
    (finished,) = run.of_type("tool_finished")
    assert (finished["status"], finished["error"]) == ("denied", error)


def test_what_the_cli_protects_is_written_without_permissions(start_claude: StartClaude, tmp_path: Path) -> None:
    asked = call("Write", file_path=".git/config", content="x")
    start_claude(asked, {"text": "Done."}).run(executor_config={"permission_mode": "bypassPermissions"})
    assert (tmp_path / ".git" / "config").read_text() == "x"


def test_a_denied_call_can_end_the_run(start_claude: StartClaude) -> None:
    claude = start_claude(call("Write", file_path="note", content="x"), {"stall": True}, satisfied=False)
    run = claude.run(executor_config={"on_denied_tool": "fail"})
    assert run.of_type("tool_finished")[0]["status"] == "denied"
    assert (run.error["type"], run.error["origin"], run.exit_code) == ("tool_failed", "caller", 1)
    assert run.error["message"] == (
        "Write was denied, and on_denied_tool is fail: allow it with --allow Write (executor_config: allowed_tools)"
    )


def test_a_call_that_fails_otherwise_does_not_end_the_run(start_claude: StartClaude) -> None:
    claude = start_claude(call("Nonesuch"), {"text": "Done."})
    assert claude.run(executor_config={"on_denied_tool": "fail"}).terminal["result_text"] == "Done."
