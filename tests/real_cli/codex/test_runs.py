"""Runs, sessions and streaming: what the model reads, and what the events say."""

import json
from contextlib import ExitStack

import pytest

from tests.process.executors.driver import wait_until
from tests.real_cli.codex.codex import KEY, agent, command
from tests.real_cli.codex.conftest import StartCodex

TOOLS = {"exec_command", "write_stdin", "request_user_input", "view_image"}


@pytest.mark.requirement("AOX-079", "AOX-082", "AOX-206")
def test_a_run_streams_its_answer_and_leaves_no_file(start_codex: StartCodex) -> None:
    codex = start_codex({"text": "Hello there.", "chunk_chars": 5})
    run = codex.run(agent_blueprint=agent())

    assert run.terminal["result_text"] == "Hello there."
    pieces = [event["content"][0]["text"] for event in run.of_type("message_delta")]
    assert (pieces[0], "".join(pieces)) == ("Hello", "Hello there.")
    [message] = run.of_type("message")
    assert {event["message_id"] for event in run.of_type("message_delta")} == {message["message_id"]}
    assert run.terminal["usage"]["input_tokens"] == 100
    assert run.of_type("session_bound")[0]["model"]
    assert list(codex.temporary.iterdir()) == list(codex.project.iterdir()) == []


@pytest.mark.requirement("AOX-200")
def test_runs_that_begin_at_once_in_a_new_home_all_answer(start_codex: StartCodex) -> None:
    codex = start_codex(*[{"text": "Hello."}] * 4)
    with ExitStack() as running:
        executors = [running.enter_context(codex.start(run_id=f"run_{number}")) for number in range(4)]
        assert [executor.read_run()[-1]["event_type"] for executor in executors] == ["result"] * 4


@pytest.mark.requirement("AOX-055", "AOX-078")
def test_a_resume_keeps_the_conversation_the_sandbox_and_its_own_usage(start_codex: StartCodex) -> None:
    codex = start_codex({"text": "One."}, command("touch new"), {"text": "Two."})
    session = codex.run(agent_blueprint=agent()).of_type("session_bound")[0]["executor_session_id"]
    again = codex.run(agent_blueprint=agent(), mode="resume", executor_session_id=session)

    assert again.terminal["result_text"] == "Two."
    assert again.of_type("session_bound")[0]["executor_session_id"] == session
    assert again.terminal["usage"]["output_tokens"] == 100
    assert "One." in json.dumps(codex.sent(1)["input"])
    assert "Read-only file system" in json.dumps(codex.sent(2)["input"])
    assert not (codex.project / "new").exists()


@pytest.mark.requirement("AOX-078")
def test_a_resume_after_a_compaction_has_its_own_usage(start_codex: StartCodex) -> None:
    used = {"input_tokens": 1000, "output_tokens": 100, "cache_read_input_tokens": 7}
    too_much = {"text": "One.", "usage": {"input_tokens": 900_000, "output_tokens": 100}}
    codex = start_codex(too_much, *[{"text": "Two.", "usage": used}] * 3)
    session = codex.run().of_type("session_bound")[0]["executor_session_id"]
    compacted, last = (codex.run(mode="resume", executor_session_id=session) for _ in range(2))

    assert compacted.terminal["usage"]["input_tokens"] == 2000
    assert last.terminal["usage"] == used | {"cache_creation_input_tokens": 0, "reasoning_tokens": 0}


@pytest.mark.requirement("AOX-078")
def test_a_run_that_is_cancelled_has_its_own_usage(start_codex: StartCodex) -> None:
    used = {"input_tokens": 1000, "output_tokens": 100}
    answers = [{"text": "One.", "usage": used}, {**command("touch begun; tail -f /dev/null"), "usage": used}]
    codex = start_codex(*answers, answers[0])
    turns = {"stdin": "open", "turns": True}
    with codex.start(control=turns, executor_config={"access": "all"}) as executor:
        executor.read_run()
        executor.write_turn("run_2", "Wait.")
        wait_until((codex.project / "begun").exists)  # the CLI has read the whole answer
        executor.write_line({"type": "cancel"})
        cancelled = executor.read_run()
        executor.write_turn("run_3", "And then?")
        last = executor.read_run()

    assert [events[-1]["usage"]["input_tokens"] for events in (cancelled, last)] == [1000, 1000]


def test_a_session_in_use_is_busy_and_an_unknown_one_is_not_found(start_codex: StartCodex) -> None:
    codex = start_codex({"text": "Hello there", "stall_after_chars": 4})
    with codex.start() as first:
        session = first.read_until("session_bound")["executor_session_id"]
        first.read_until("message_delta")
        busy = codex.run(mode="resume", executor_session_id=session, run_id="run_2")
    assert (busy.error["type"], busy.exit_code) == ("session_busy", 75)
    for unknown in ("01a2140a-911d-7063-ae30-7991fee26fb9", "--x"):
        assert codex.run(mode="resume", executor_session_id=unknown).error["type"] == "session_not_found"


def test_a_turn_follows_a_cancelled_one_in_the_same_process(start_codex: StartCodex) -> None:
    codex = start_codex(command("sleep 1000"), {"text": "Two."})
    with codex.start(control={"stdin": "open", "turns": True}, agent_blueprint=agent()) as executor:
        executor.read_until("tool_started")
        executor.write_line({"type": "cancel"})
        events = executor.read_run()
        assert events[-1]["error"]["type"] == "cancelled"
        assert [event["status"] for event in events if event["event_type"] == "tool_finished"] == ["cancelled"]
        executor.write_turn("run_2", "Go on")
        assert executor.read_run()[-1]["result_text"] == "Two."
        executor.write_line({"type": "shutdown"})
        assert executor.wait() == 0


def test_what_the_model_reads_is_the_prompt_of_the_blueprint_and_nothing_of_the_project(
    start_codex: StartCodex,
) -> None:
    codex = start_codex({"text": "Hi."}, {"text": "Hi."})
    (codex.project / "AGENTS.md").write_text("MARK of the project")
    # Of a model that the CLI does not know, the tools are those of any other.
    codex.run(agent_blueprint=agent(), executor_config={"model": "plain"})
    codex.run(agent_blueprint=agent(), executor_config={"model": "plain", "project_doc": True})

    request, with_document = codex.model.requests
    assert request.system_blocks[0] == "You review."
    assert "MARK" not in json.dumps(request.body)
    assert "MARK" in json.dumps(with_document.body)
    assert {tool["name"] for tool in request.tools} == TOOLS


@pytest.mark.requirement("AOX-198")
def test_commands_do_not_inherit_the_key(start_codex: StartCodex) -> None:
    codex = start_codex(command("env"), {"text": "Done."})
    run = codex.run()
    [finished] = run.of_type("tool_finished")
    assert "CODEX_THREAD_ID" in finished["tool_output"]
    assert "OPENAI_API_KEY" not in finished["tool_output"]
    assert KEY.encode() not in run.stdout
    assert "authorization" in codex.model.requests[0].headers
