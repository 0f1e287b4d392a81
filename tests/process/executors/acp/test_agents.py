"""Agents of the Agent Client Protocol, played by `scripted_agent.py`, which knows the traps of real ones."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.process.executors.acp.scripted_runs import ANY, CLAUDE, ask, config, methods, received, resume, texts
from tests.process.executors.driver import ExecutorProcess, bare_environment, invocation, run, wait_until

CONTRACT = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
BLUEPRINT = {"name": "a", "system_prompt": "Be brief."}


def test_a_turn_is_the_answer_in_pieces_and_whole(tmp_path: Path) -> None:
    ended = ask(tmp_path, "says_in_pieces")

    pieces = texts(ended, "message_delta")
    assert ("".join(pieces), pieces[0]) == ("Hello.Second.", "Hel")
    assert texts(ended, "message") == ["Hello.", "Second."]
    assert (ended.terminal["result_text"], ended.terminal["stop_reason"]) == ("Second.", "end_turn")
    assert methods(tmp_path) == ["initialize", "session/new", "session/prompt"]
    assert received(tmp_path)[0]["params"]["clientCapabilities"] == {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
    }


@pytest.mark.requirement("AOX-123")
def test_a_session_is_announced_where_it_can_be_continued(tmp_path: Path) -> None:
    assert ask(tmp_path, "says_in_pieces", program=CLAUDE).of_type("session_bound")
    assert not ask(tmp_path, "says_in_pieces", program=ANY).of_type("session_bound")


def test_other_output_and_long_lines_do_no_harm(tmp_path: Path) -> None:
    ended = ask(tmp_path, "prints_text", "reads_a_file")

    assert ended.terminal["result_text"] == "x" * 200_000 + "-32601"
    assert [event["message"] for event in ended.of_type("log")] == [
        "the agent printed: Loading weights…",
        "the agent printed: { not: json }",
        "the agent printed: [1]",
    ]


def test_a_wrong_answer_appears_nowhere_and_is_asked_for_again(tmp_path: Path) -> None:
    ended = ask(tmp_path, "answers_a_contract_late", output_schema=CONTRACT)

    assert ended.terminal["result_data"] == {"n": 2}
    assert [event["valid"] for event in ended.of_type("output_validation")] == [False, True]
    assert methods(tmp_path).count("session/prompt") == 2
    assert b"message_delta" not in ended.stdout
    assert texts(ended, "message") == ['{"n": 2}']


@pytest.mark.parametrize(
    ("response", "error_type"),
    [
        ("{}", "internal_error"),
        ("null", "internal_error"),
        ('{"stopReason": "paused"}', "internal_error"),
        ('{"stopReason": "refusal"}', "content_refused"),
        ('{"stopReason": "max_turn_requests"}', "limit_exceeded"),
        ('{"stopReason": "max_tokens"}', "output_truncated"),
        ('{"stopReason": "cancelled"}', "tool_failed"),
    ],
)
def test_text_without_the_right_stop_reason_is_no_result(tmp_path: Path, response: str, error_type: str) -> None:
    assert ask(tmp_path, f"ends_with:{response}").error["type"] == error_type


@pytest.mark.parametrize(
    ("error", "error_type"),
    [
        ({"code": -32000, "message": "Authentication required"}, "authentication_failed"),
        ({"code": -32603, "message": "Internal error", "data": {"details": "403 no"}}, "permission_denied"),
        ({"code": 429, "message": "slow down"}, "rate_limited"),
        ({"code": -32603, "message": "cannot read 4010 lines"}, "internal_error"),
        ("nonsense", "internal_error"),
    ],
)
def test_an_error_of_the_agent_has_a_type(tmp_path: Path, error: object, error_type: str) -> None:
    ended = ask(tmp_path, f"refuses:session/prompt:{json.dumps(error)}")

    assert ended.error["type"] == error_type


@pytest.mark.parametrize(
    ("trap", "error_type", "said"),
    [
        ("dies", "internal_error", "out of luck"),
        ("is_version_2", "dependency_missing", "protocolVersion 2"),
        ("never_starts", "provider_unavailable", "start_seconds"),
    ],
)
def test_an_agent_that_does_not_work_is_named(tmp_path: Path, trap: str, error_type: str, said: str) -> None:
    settings = {"start_seconds": 0.5} if trap == "never_starts" else {}
    error = ask(tmp_path, trap, settings=settings).error

    assert error["type"] == error_type
    assert said in error["message"]


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    ended = run(ANY, invocation(project_dir=str(tmp_path), executor_config={"command": ["no-such-agent", "acp"]}))

    assert ended.error["type"] == "dependency_missing"
    assert "no-such-agent" in ended.error["message"]


def test_a_silent_turn_is_cancelled_and_fails(tmp_path: Path) -> None:
    ended = ask(tmp_path, "falls_silent", settings={"idle_seconds": 0.5})

    assert ended.error["type"] == "provider_unavailable"
    assert "idle_seconds" in ended.error["message"]
    assert methods(tmp_path)[-1] == "session/cancel"


@pytest.mark.parametrize("trap", ["falls_silent", "never_ends_its_turn"])
def test_a_cancelled_run_leaves_no_agent(tmp_path: Path, trap: str) -> None:
    document = invocation(
        project_dir=str(tmp_path),
        executor_config=config(trap, "ignores_sigterm"),
        limits={"cancel_grace_seconds": 5},
        control={"stdin": "open"},
    )
    with ExecutorProcess(ANY) as executor:
        executor.write_line(document)
        executor.read_until("message_delta")
        executor.write_line({"type": "cancel"})
        ended = executor.finish()

    assert ended.error["type"] == "cancelled"
    assert not is_running(tmp_path)


def test_a_killed_executor_leaves_no_agent(tmp_path: Path) -> None:
    with ExecutorProcess(ANY) as executor:
        executor.write_line(invocation(project_dir=str(tmp_path), executor_config=config("never_ends_its_turn")))
        executor.read_until("message_delta")
        executor.signal(signal.SIGKILL)
        wait_until(lambda: not is_running(tmp_path))


def is_running(folder: Path) -> bool:
    stat = Path("/proc", (folder / "agent.pid").read_text(encoding="utf-8"), "stat")
    try:
        return stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_open_tool_call_is_closed(tmp_path: Path) -> None:
    ended = ask(tmp_path, "leaves_a_tool_open")

    assert texts(ended, "message") == ["Let me look.", "Done."]
    (started,), (finished,) = ended.of_type("tool_started"), ended.of_type("tool_finished")
    assert (started["tool_name"], started["tool_input"]) == ("shell", {"command": "ls"})
    assert (finished["tool_call_id"], finished["status"]) == (started["tool_call_id"], "failed")


@pytest.mark.parametrize(
    ("trap", "policy", "chosen", "status"),
    [
        ("asks", "deny", "no", "denied"),
        ("asks", "allow", "yes", "completed"),
        ("asks_without_reject", "deny", "cancelled", "denied"),
    ],
)
def test_the_policy_chooses_an_option_by_its_kind(
    tmp_path: Path, trap: str, policy: str, chosen: str, status: str
) -> None:
    ended = ask(tmp_path, trap, settings={"permissions": policy})

    assert ended.terminal["result_text"] == chosen
    (started,), (finished,) = ended.of_type("tool_started"), ended.of_type("tool_finished")
    assert (started["tool_input"], finished["status"]) == ({"command": "ls"}, status)


def test_a_turn_that_ends_with_a_denial_is_no_success(tmp_path: Path) -> None:
    ended = ask(tmp_path, "asks", "falls_silent_when_denied")

    assert (ended.error["type"], ended.error["side_effects"]) == ("tool_failed", "possible")
    assert "executor_config.permissions" in ended.error["message"]


@pytest.mark.parametrize(
    ("response", "chosen", "status", "reason"),
    [
        ({"option_id": "always"}, "always", "completed", None),
        ({"option_id": "no"}, "no", "denied", "the user denied this call"),
        ({"outcome": "expired", "by": "timeout"}, "no", "denied", "nobody answered in time"),
    ],
)
def test_a_person_decides(
    tmp_path: Path, response: dict[str, Any], chosen: str, status: str, reason: str | None
) -> None:
    document = invocation(
        project_dir=str(tmp_path), executor_config=config("asks"), control={"stdin": "open", "input": True}
    )
    with ExecutorProcess(ANY) as executor:
        executor.write_line(document)
        request = executor.read_until("input_requested")
        executor.write_line({"type": "input_response", "request_id": request["request_id"], **response})
        ended = executor.finish()

    assert (request["title"], request["tool_input"]) == ("Run `ls`", {"command": "ls"})
    assert [(one["id"], one["effect"], one["scope"]) for one in request["options"]] == [
        ("yes", "allow", "once"),
        ("no", "deny", "once"),
        ("always", "allow", "session"),
    ]
    assert ended.terminal["result_text"] == chosen
    (finished,) = ended.of_type("tool_finished")
    assert (finished["status"], finished.get("error")) == (status, reason)


def test_a_cancel_answers_an_open_permission_as_cancelled(tmp_path: Path) -> None:
    document = invocation(
        project_dir=str(tmp_path), executor_config=config("asks_and_waits"), control={"stdin": "open", "input": True}
    )
    with ExecutorProcess(ANY) as executor:
        executor.write_line(document)
        executor.read_until("input_requested")
        executor.write_line({"type": "cancel"})
        ended = executor.finish()

    assert ended.error["type"] == "cancelled"
    assert [finished["status"] for finished in ended.of_type("tool_finished")] == ["cancelled"]
    answers = [message["result"] for message in received(tmp_path) if message.get("id") == "p1"]
    assert answers == [{"outcome": {"outcome": "cancelled"}}]


@pytest.mark.parametrize(
    ("traps", "method"),
    [((), "session/resume"), (("loads",), "session/load"), (("loads", "answers_null"), "session/load")],
    ids=["resume", "load", "load with null"],
)
def test_a_session_is_continued_without_its_replay(tmp_path: Path, traps: tuple[str, ...], method: str) -> None:
    settings = {"mode": "default"} if "answers_null" not in traps else {}
    ended = resume(tmp_path, *traps, settings=settings, agent_blueprint=BLUEPRINT)
    if "answers_null" in traps:  # without its modes, the agent might decide permissions itself
        assert "has no session mode 'default'" in ended.error["message"]
        return

    assert ended.terminal["result_text"] == "You said: Hi"
    assert texts(ended, "message") == ["You said: Hi"]
    assert [event["executor_session_id"] for event in ended.of_type("session_bound")] == [str(tmp_path)]
    assert methods(tmp_path) == ["initialize", method, "session/set_mode", "session/prompt"]
    asked = received(tmp_path)[1]["params"]
    assert (asked["sessionId"], asked["cwd"], asked["mcpServers"]) == (str(tmp_path), str(tmp_path), [])
    assert asked["_meta"]["systemPrompt"] == "Be brief."


@pytest.mark.parametrize(
    ("trap", "error_type"),
    [
        ('refuses:session/resume:{"code": -32002, "message": "Resource not found: it"}', "session_not_found"),
        ("cannot_resume", "unsupported_capability"),
    ],
    ids=["unknown", "cannot"],
)
def test_a_resume_never_begins_a_new_session(tmp_path: Path, trap: str, error_type: str) -> None:
    ended = resume(tmp_path, trap)

    assert ended.error["type"] == error_type
    assert not {"session/new", "session/prompt"} & set(methods(tmp_path))


def test_the_generic_executor_declares_no_resume(tmp_path: Path) -> None:
    ended = ask(tmp_path, mode="resume", executor_session_id=str(tmp_path))

    assert ended.error["type"] == "unsupported_capability"


@pytest.mark.parametrize(
    ("mode", "tokens", "cost"), [("start", (1010, 501), 3.0), ("resume", (1010, 501), 1.0)], ids=["new", "resumed"]
)
def test_usage_is_that_of_the_run(tmp_path: Path, mode: str, tokens: tuple[int, int], cost: float) -> None:
    fields = {"mode": mode, "executor_session_id": str(tmp_path)} if mode == "resume" else {}
    usage = ask(tmp_path, "counts", "loads", program=CLAUDE, **fields).terminal["usage"]

    assert (usage["input_tokens"], usage["output_tokens"], usage["cost_usd"]) == (*tokens, cost)


def test_a_system_prompt_is_refused_or_precedes_the_first_message(tmp_path: Path) -> None:
    refused = ask(tmp_path, agent_blueprint=BLUEPRINT)
    told = ask(tmp_path, agent_blueprint=BLUEPRINT, settings={"system_prompt": "first_message"})

    assert refused.error["type"] == "unsupported_capability"
    assert "executor_config.system_prompt" in refused.error["message"]
    assert told.terminal["result_text"] == "You said: Be brief.\n\nHi"


def test_an_agent_gets_one_credential_and_no_traces_of_npm(tmp_path: Path) -> None:
    given = {
        "npm_config_user_agent": "npm",
        "CLAUDECODE": "1",
        "ANTHROPIC_API_KEY": "sk-ant-something-long",
        "CLAUDE_CODE_OAUTH_TOKEN": "oauth-something-long",
    }
    document = invocation(project_dir=str(tmp_path), executor_config=config("shows_its_environment"))
    ended = run(CLAUDE, document, env=bare_environment() | given)
    shown = json.loads((tmp_path / "environment.json").read_text(encoding="utf-8"))

    assert ended.exit_code == 0
    assert given.keys() & shown.keys() == {"ANTHROPIC_API_KEY"}
    assert not Path(shown["CLAUDE_CODE_TMPDIR"]).exists()


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({"command": "sh", "args": ["-c", "echo no luck >&2; exit 3"]}, "no luck"),
        ({"command": "no-such-server"}, "no executable"),
        ({"type": "http", "url": "http://127.0.0.1:1/mcp"}, "refused"),
        ({"type": "sse", "url": "http://127.0.0.1:1/sse"}, "type sse"),
    ],
    ids=["ends", "missing", "unreachable", "unknown to the agent"],
)
def test_a_broken_mcp_server_fails_the_run_before_the_model_is_asked(
    tmp_path: Path, server: dict[str, Any], said: str
) -> None:
    required = ask(tmp_path, agent_blueprint={"name": "a", "mcp_servers": {"files": server}})
    asked = methods(tmp_path)
    optional = ask(tmp_path, agent_blueprint={"name": "a", "mcp_servers": {"files": {**server, "required": False}}})

    assert required.error["type"] == "mcp_server_unavailable"
    assert said in required.error["details"]["servers"]["files"]
    assert "session/prompt" not in asked
    assert optional.exit_code == 0
    assert [event["level"] for event in optional.of_type("log")] == ["warning"]
    assert received(tmp_path)[-2]["params"]["mcpServers"] == []


def test_a_run_needs_no_home_and_two_do_not_share_a_session(tmp_path: Path) -> None:
    with ExecutorProcess(CLAUDE, env={"PATH": os.environ["PATH"]}) as holder:
        resumed = invocation(
            mode="resume",
            executor_session_id=str(tmp_path),
            project_dir=str(tmp_path),
            executor_config=config("never_ends_its_turn"),
        )
        holder.write_line(resumed)
        holder.read_until("message_delta")
        assert resume(tmp_path).error["type"] == "session_busy"
