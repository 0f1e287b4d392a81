"""Tools: what runs, what is denied, and what the events say."""

import json
import sys

import pytest

from tests.real_cli.codex.codex import agent, command
from tests.real_cli.codex.conftest import StartCodex

MCP_SERVER = """\
import json, os, sys
RESULTS = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "t", "version": "1"}},
    "tools/list": {"tools": [{"name": "shout", "description": "Shouts.", "inputSchema": {"type": "object"}}]},
}
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "tools/call":
        told = [os.environ["SUFFIX"], os.environ.get("OPENAI_API_KEY"), os.getcwd()]
        result = {"content": [{"type": "text", "text": json.dumps(told)}]}
    else:
        result = RESULTS.get(message["method"], {})
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
SHOUT = {"content": [{"type": "tool_use", "id": "call_1", "name": "mcp__loud__shout", "input": {"text": "hi"}}]}
ESCALATE = {"sandbox_permissions": "require_escalated", "justification": "I want to"}


@pytest.mark.requirement("AOX-093")
def test_each_call_is_a_pair_of_events_whatever_becomes_of_it(start_codex: StartCodex) -> None:
    calls = {
        "good": ("exec_command", {"cmd": "echo hi"}),
        "bad": ("exec_command", {"cmd": "touch no; exit 3"}),
        "unknown": ("Nonesuch", {"a": 1}),
        "escalated": ("exec_command", {"cmd": "touch no", **ESCALATE}),
    }
    content = [{"type": "tool_use", "id": call, "name": name, "input": given} for call, (name, given) in calls.items()]
    codex = start_codex({"content": content}, {"text": "Done."})
    run = codex.run()

    started = {event["tool_call_id"]: event for event in run.of_type("tool_started")}
    assert {call: (event["tool_name"], event["tool_input"]) for call, event in started.items()} == calls
    finished = {event["tool_call_id"]: event for event in run.of_type("tool_finished")}
    statuses = {call: event["status"] for call, event in finished.items()}
    assert statuses == {"good": "completed", "bad": "failed", "unknown": "failed", "escalated": "denied"}
    assert finished["good"]["tool_output"] == "hi\n"
    assert "executor_config: access" in finished["escalated"]["error"]
    assert not (codex.project / "no").exists()


def test_a_request_that_nobody_may_grant_is_denied_and_the_model_goes_on(start_codex: StartCodex) -> None:
    codex = start_codex(command("touch no", **ESCALATE), {"text": "Done."})
    run = codex.run(executor_config={"allowed_tools": ["apply_patch"]})

    assert [event["status"] for event in run.of_type("tool_finished")] == ["denied"]
    assert run.terminal["result_text"] == "Done."
    assert "rejected" in json.dumps(codex.sent(1)["input"][-1])
    assert not (codex.project / "no").exists()


@pytest.mark.requirement("AOX-153", "AOX-155")
@pytest.mark.parametrize(("option", "status"), [("accept", "completed"), ("decline", "denied")])
def test_a_person_decides_about_a_command(start_codex: StartCodex, option: str, status: str) -> None:
    codex = start_codex(command("echo hi > new", **ESCALATE), {"text": "Done."})
    with codex.start(control={"stdin": "open", "input": True}) as executor:
        started = executor.read_until("tool_started")
        asked = executor.read_until("input_requested")
        assert asked["tool_call_id"] == started["tool_call_id"]
        assert "echo hi > new" in asked["tool_input"]["command"]
        offered = {one["id"]: (one["effect"], one["scope"]) for one in asked["options"]}
        assert offered == {"accept": ("allow", "once"), "decline": ("deny", "once")}
        assert not (codex.project / "new").exists()
        executor.write_line({"type": "input_response", "request_id": asked["request_id"], "option_id": option})
        assert executor.read_until("tool_finished")["status"] == status
        assert executor.read_until("result")["result_text"] == "Done."
    assert (codex.project / "new").exists() is (option == "accept")


@pytest.mark.requirement("AOX-156")
def test_a_cancel_while_a_person_is_asked_ends_the_run(start_codex: StartCodex) -> None:
    codex = start_codex(command("touch no", **ESCALATE), satisfied=False)
    with codex.start(control={"stdin": "open", "input": True}) as executor:
        executor.read_until("input_requested")
        executor.write_line({"type": "cancel"})
        events = executor.read_run()
        assert events[-1]["error"]["type"] == "cancelled"
        [resolved] = [event for event in events if event["event_type"] == "input_resolved"]
        assert (resolved["outcome"], resolved["by"]) == ("cancelled", "policy")
        assert executor.wait() == 130
    assert not (codex.project / "no").exists()


def test_a_workspace_that_may_be_written_is_written(start_codex: StartCodex) -> None:
    codex = start_codex(command("echo hi > new && mktemp"), {"text": "Done."})
    run = codex.run(executor_config={"access": "edit"})
    assert run.of_type("tool_finished")[0]["status"] == "completed"
    assert (codex.project / "new").read_text() == "hi\n"
    assert list(codex.temporary.iterdir()) == []


@pytest.mark.requirement("AOX-198")
def test_an_mcp_server_of_the_blueprint_is_used_without_the_key(start_codex: StartCodex) -> None:
    codex = start_codex(SHOUT, {"text": "Done."})
    server = {"command": sys.executable, "args": ["-c", MCP_SERVER], "env": {"SUFFIX": "${HOME}!"}}
    (codex.home / ".codex").mkdir()
    (codex.home / ".codex" / "config.toml").write_text('[mcp_servers.own]\ncommand = "/nonexistent"\n')
    # A model that the CLI does not know calls tools directly, and not from a script.
    run = codex.run(agent_blueprint=agent(mcp_servers={"loud": server}), executor_config={"model": "plain"})

    [finished] = run.of_type("tool_finished")
    assert (finished["tool_name"], finished["status"]) == ("mcp__loud__shout", "completed")
    assert json.loads(finished["tool_output"][0]["text"]) == ["${HOME}!", None, str(codex.project)]
    assert "mcp__loud" in {tool["name"] for tool in codex.model.requests[0].tools}


@pytest.mark.requirement("AOX-052")
@pytest.mark.parametrize("required", [True, False])
def test_a_server_that_does_not_start(start_codex: StartCodex, required: bool) -> None:
    codex = start_codex({"text": "Done."}, satisfied=False)
    broken = {"command": "/nonexistent", "required": required}
    run = codex.run(agent_blueprint=agent(mcp_servers={"broken": broken}))
    if required:
        assert (run.error["type"], len(codex.model.requests)) == ("mcp_server_unavailable", 0)
        assert "broken" in run.error["details"]["servers"]
    else:
        assert "broken" in run.of_type("log")[0]["message"]
        assert run.terminal["result_text"] == "Done."


@pytest.mark.parametrize("stays", [False, True], ids=["one run", "a session that stays"])
def test_a_terminal_that_is_left_running_is_named_and_no_completed_call(start_codex: StartCodex, stays: bool) -> None:
    codex = start_codex(command("tail -f /dev/null", yield_time_ms=250), {"text": "It is running."})
    with codex.start(control={"stdin": "open", "turns": True} if stays else {}) as executor:
        events = executor.read_run()

    (finished,) = [event for event in events if event["event_type"] == "tool_finished"]
    (warning,) = [event["message"] for event in events if event["event_type"] == "log"]
    assert (finished["status"], events[-1]["result_text"]) == ("failed", "It is running.")
    assert "tail -f /dev/null" in warning


def test_a_terminal_that_ends_later_in_the_run_is_a_completed_call(start_codex: StartCodex) -> None:
    begun = command("echo $$ > pid; until [ -e made ]; do sleep 0.05; done", yield_time_ms=250)
    ended = command("until [ -s pid ]; do sleep 0.05; done; touch made; tail --pid=$(cat pid) -f /dev/null")
    ended["content"][0]["input"]["yield_time_ms"] = 30_000
    ended["content"][0]["id"] = "call_2"
    codex = start_codex(begun, ended, {"text": "Done."})
    run = codex.run(executor_config={"access": "all"})

    statuses = {event["tool_call_id"]: event["status"] for event in run.of_type("tool_finished")}
    assert (statuses, run.of_type("log")) == ({"call_1": "completed", "call_2": "completed"}, [])
