"""Every way in which the API, the CLI or a limit can fail is a typed failure, soon."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from ao_executors.claude_code.claude_process import CLAUDE
from ao_executors.claude_code.cli_files import ApiErrorLog, words_of
from tests.real_cli.claude_code.claude import agent
from tests.real_cli.claude_code.conftest import StartClaude

NO_RETRY = {"max_api_retries": 0}
KEY = "sk-ant-canary-1234"


@pytest.mark.parametrize(
    ("said", "error_type"),
    [
        ({"type": "invalid_request_error", "message": "Your credit balance is too low"}, "quota_exceeded"),
        ({"message": "prompt is too long: 210000 tokens > 200000 maximum"}, "context_window_exceeded"),
    ],
    ids=["billing", "too long"],
)
def test_a_bad_request_is_told_by_what_is_bad(
    start_claude: StartClaude, said: dict[str, object], error_type: str
) -> None:
    run = start_claude({"status": 400, "error": said, "repeat": "forever"}, satisfied=False).run(
        executor_config=NO_RETRY
    )
    assert (run.error["type"], run.error["side_effects"], run.exit_code) == (error_type, "none", 1)


def test_a_key_that_cannot_be_sent_is_the_callers_to_correct(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "Hi.", "repeat": "forever"}, satisfied=False, env={"ANTHROPIC_API_KEY": "sk-ant-…"})
    error = claude.run().error
    assert (error["type"], error["origin"], error["retryable"]) == ("authentication_failed", "caller", False)


def test_a_prompt_that_the_cli_counts_as_too_long_is_told_as_such(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "Hi.", "repeat": "forever"}, satisfied=False)
    error = claude.run(parameters={"prompt": "word " * 1_500_000}).error
    assert (error["type"], error["origin"]) == ("context_window_exceeded", "caller")


@pytest.mark.parametrize("status", [400, 401, 429])
def test_what_the_api_says_of_an_error_is_in_the_failure(start_claude: StartClaude, status: int) -> None:
    said = f"Workspace ws-7 is paused; the key was {KEY}."
    answer = {"status": status, "error": {"message": said}, "repeat": "forever"}
    claude = start_claude(answer, satisfied=False, env={"ANTHROPIC_API_KEY": KEY})
    message = claude.run(executor_config=NO_RETRY).error["message"]
    assert "Workspace ws-7 is paused; the key was " in message
    assert KEY not in message


def test_what_the_api_says_is_told_with_each_retry(start_claude: StartClaude) -> None:
    claude = start_claude({"status": 529, "error": {"message": "Too many cats."}}, {"text": "At last."})
    (retry,) = claude.run().of_type("retry_scheduled")
    assert retry["error"]["message"] == "the API answered 529 (overloaded): Too many cats."


def test_the_words_of_an_error_are_waited_for_and_never_those_of_an_older_one() -> None:
    log = ApiErrorLog()

    async def told_after(*said: str) -> str | None:
        asked = asyncio.create_task(log.next_words())
        await asyncio.sleep(0)  # it has looked once, in vain
        with log.path.open("a") as file:
            file.writelines(f"2026-01-01T00:00:00.000Z [ERROR] API error (attempt 1/2): 504 {one}\n" for one in said)
        return await asked

    async def three_errors() -> list[str | None]:
        return [await told_after("Slow."), await told_after(), await told_after("Slower.")]

    try:
        assert asyncio.run(three_errors()) == ["Slow.", None, "Slower."]
    finally:
        log.forget()


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('404 {"type":"error","error":{"type":"not_found_error","message":"model: x"}}', "model: x"),
        ('403 {"message":"You don\'t have access to the model."}', "You don't have access to the model."),
        ('404 [{"error":{"code":404,"message":"Publisher Model was not found."}}]', "Publisher Model was not found."),
        ("502 <html>\n<h1>Bad Gateway</h1></html>", "<html> <h1>Bad Gateway</h1></html>"),
        ("Connection error.", "Connection error."),
        ("x" * 2000, "x" * 1000 + "…"),
    ],
    ids=["Anthropic", "AWS", "Google", "a proxy", "no answer", "long"],
)
def test_the_words_of_an_error_are_found_in_every_form_of_body(entry: str, words: str) -> None:
    assert words_of(entry) == words


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
def test_root_is_told_what_to_do_to_bypass_permissions(start_claude: StartClaude) -> None:
    servers = {"t": {"command": "true"}}
    run = start_claude(env={"IS_SANDBOX": ""}).run(
        executor_config={"permission_mode": "bypassPermissions"}, agent_blueprint=agent(mcp_servers=servers)
    )
    assert (run.error["type"], run.error["side_effects"], run.exit_code) == ("invalid_executor_config", "none", 64)
    assert run.error["details"]["violations"][0]["pointer"] == "$.permission_mode"
    for remedy in ("run as another user", "IS_SANDBOX=1", "dontAsk with allowed_tools"):
        assert remedy in run.error["message"]


@pytest.mark.requirement("AOX-106")
def test_a_rate_limit_that_lasts_fails_with_the_delay_that_the_api_asked_for(start_claude: StartClaude) -> None:
    claude = start_claude({"status": 429, "headers": {"retry-after": "4"}, "repeat": "forever"})
    run = claude.run(executor_config=NO_RETRY)
    assert (run.error["type"], run.error["retryable"], run.exit_code) == ("rate_limited", True, 75)
    assert run.error["retry_after_seconds"] == 4


def test_a_longer_wait_than_allowed_is_not_waited_for(start_claude: StartClaude) -> None:
    claude = start_claude({"status": 429, "headers": {"retry-after": "8"}, "repeat": "forever"})
    run = claude.run(executor_config={"max_retry_delay_seconds": 5})
    assert "retry_scheduled" not in run.types
    assert run.error["type"] == "rate_limited"
    # The CLI reports the delay with up to a quarter more by chance.
    assert run.error["retry_after_seconds"] == pytest.approx(8, abs=1)


def test_a_wait_that_the_cli_itself_does_not_bear_is_a_rate_limit(start_claude: StartClaude) -> None:
    claude = start_claude({"status": 429, "headers": {"retry-after": "3600"}, "repeat": "forever"})
    run = claude.run()
    assert (run.error["type"], run.exit_code) == ("rate_limited", 75)
    assert len(claude.model.requests) == 1


def test_a_missing_cli_says_how_to_get_it(start_claude: StartClaude) -> None:
    run = start_claude().run(executor_config={"cli_path": "/nonexistent/claude"})
    assert run.error["type"] == "dependency_missing"
    assert "/nonexistent/claude" in run.error["message"]
    assert "pip install" in run.error["message"]


def test_a_cli_that_is_killed_is_a_retryable_failure(start_claude: StartClaude, tmp_path: Path) -> None:
    killed = tmp_path / "claude-killed"
    killed.write_text(f"#!{sys.executable}\nimport os\nos.kill(os.getpid(), 9)\n")
    killed.chmod(0o755)
    run = start_claude().run(executor_config={"cli_path": str(killed)})
    assert (run.error["type"], run.error["retryable"], run.exit_code) == ("internal_error", True, 75)


def test_a_line_of_the_cli_that_only_looks_like_json_is_passed_over(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "Hello"})
    talkative = claude.home / "claude-talkative"
    talkative.write_text(f'#!/bin/sh\necho "{{ a: 1 }}"\nexec {CLAUDE.find()} "$@"\n')
    talkative.chmod(0o755)

    run = claude.run(executor_config={"cli_path": str(talkative)})

    assert run.terminal["event_type"] == "result", run.stderr
    assert run.terminal["result_text"] == "Hello"


@pytest.mark.requirement("AOX-052")
def test_a_run_continues_without_an_mcp_server_that_is_not_required_and_says_so(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "Done."})
    servers = {"web": {"type": "http", "url": "http://127.0.0.1:9/mcp", "required": False}}

    run = claude.run(agent_blueprint=agent(mcp_servers=servers))

    assert run.terminal["result_text"] == "Done."
    (remark,) = run.of_type("log")
    assert remark["message"].startswith("MCP server web is not available, and the run continues without it: ")


def test_an_unknown_config_field_is_ignored_and_named(start_claude: StartClaude) -> None:
    run = start_claude({"text": "Yes."}).run(executor_config={"modle": "x"})
    assert run.exit_code == 0
    assert "executor_config.modle is ignored" in run.of_type("log")[0]["message"]
