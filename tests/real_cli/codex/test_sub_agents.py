"""Agents that the model starts: their work is part of the call that started them, and ends with the run."""

import json
import sys
from typing import Any
from uuid import uuid4

import pytest

from tests.process.executors.driver import wait_until
from tests.process.lifeline.leftovers import name_of
from tests.real_cli.claude_code.test_ending import processes_with
from tests.real_cli.codex.conftest import StartCodex

SPAWN = {
    "content": [
        {
            "type": "tool_use",
            "id": "call_1",
            "name": "collaboration__spawn_agent",
            "input": {"task_name": "helper", "message": "Help.", "fork_turns": "none"},
        }
    ]
}
THOUGHT = {"type": "thinking", "thinking": "I look."}
USED = {"input_tokens": 10, "output_tokens": 5, "reasoning_tokens": 2}


def runs(cmd: str) -> dict[str, Any]:
    """Return an answer that either of the two agents may get: which of them asks first is not defined."""
    call = {"type": "tool_use", "name": "exec_command", "input": {"cmd": cmd, "yield_time_ms": 30_000}}
    return {"content": [THOUGHT, call], "usage": USED}


def by_thread(of_the_run: str, of_the_agent: str) -> dict[str, Any]:
    """Return an answer whose command does one thing in the thread of the run, and another in that of the agent."""
    is_of_run = 'until [ -s session ]; do sleep 0.02; done; if [ "$(cat session)" = "$CODEX_THREAD_ID" ]'
    return runs(f"{is_of_run}; then {of_the_run}; else {of_the_agent}; fi")


def until_there_is(name: str) -> str:
    return f"until [ -e {name} ]; do sleep 0.02; done"


@pytest.mark.requirement("AOX-078", "AOX-095", "AOX-096")
def test_the_work_of_an_agent_is_part_of_the_call_that_started_it(start_codex: StartCodex) -> None:
    either = by_thread(until_there_is("helped"), "true")
    # While the run waits for the file, only the agent asks the model.
    answers = [{**SPAWN, "usage": USED}, either, either, runs("touch helped"), *[{"text": "Done.", "usage": USED}] * 2]
    codex = start_codex(*answers, satisfied=False)
    with codex.start(executor_config={"access": "edit"}) as executor:
        (codex.project / "session").write_text(executor.read_until("session_bound")["executor_session_id"])
        run = executor.finish()

    [spawned, *commands] = run.of_type("tool_started")
    assert (spawned["tool_call_id"], spawned["tool_name"]) == ("call_1", "collaboration__spawn_agent")
    assert sorted(event.get("parent_tool_call_id", "") for event in commands) == ["", "call_1", "call_1"]
    thoughts = [event for event in run.of_type("message") if event["content"][0]["type"] == "reasoning"]
    assert sorted(event.get("parent_tool_call_id", "") for event in thoughts) == ["", "call_1", "call_1"]
    assert run.terminal["result_text"] == "Done."
    assert run.terminal["usage"]["reasoning_tokens"] >= 4 * USED["reasoning_tokens"]


@pytest.mark.skipif(sys.platform != "linux", reason="commands are found in /proc")
@pytest.mark.requirement("AOX-095")
def test_an_agent_that_still_works_is_ended_with_its_run(start_codex: StartCodex) -> None:
    mark = uuid4().hex
    either = by_thread(until_there_is("begun"), "touch begun; tail -f /dev/null")
    codex = start_codex(SPAWN, either, either, {"text": "Done."}, {"text": "Again."}, env={"AO_TEST_MARK": mark})
    with codex.start(control={"stdin": "open", "turns": True}, executor_config={"access": "edit"}) as executor:
        (codex.project / "session").write_text(executor.read_until("session_bound")["executor_session_id"])
        events = executor.read_run()
        wait_until(lambda: not any(name_of(process) == "tail" for process in processes_with(mark)))
        executor.write_turn("run_2", "And?")
        again = executor.read_run()
        assert again[-1]["result_text"] == "Again."

    assert events[-1]["result_text"] == "Done."
    ended = {event["tool_call_id"]: event["status"] for event in events if event["event_type"] == "tool_finished"}
    assert ended["call_1"] == "failed"
    messages = [event["message"] for event in events if event["event_type"] == "log"]
    assert any("spawn_agent" in message for message in messages)
    assert "parent_tool_call_id" not in json.dumps(again)
