"""`ao-http-exec` is to the existing runner what its own executors are, with any executor of this protocol inside."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.executors.driver import wait_until
from tests.process.executors.homemade import homemade
from tests.process.executors.http_bridge.runner import (
    NOBODY_LISTENS,
    Gateway,
    Persistent,
    as_program,
    bridge,
    older,
    one_shot,
    serving,
    turn,
)
from tests.process.executors.procedural.programs import write_command
from tests.process.lifeline.leftovers import processes_in

RESUMABLE = """
from ao_protocol.events import SessionBound
session = task.invocation.executor_session_id or "made_0"
task.events.emit(SessionBound(executor_session_id=session[:5] + str(int(session[5:]) + 1)))
return Result(result_text=f"{task.text} in {session}", result_data=None, stop_reason="end_turn")
"""
"""An executor of one run per process, which numbers the runs of a session in its name."""


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with serving() as found:
        yield found


def said(role: str, text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"event_type": "message", "session_id": "ses_1", "role": role, "content": content}


def resulted(text: str | None, data: object = None) -> dict[str, Any]:
    return {"event_type": "result", "session_id": "ses_1", "result_text": text, "result_data": data}


def scripted(*answers: dict[str, Any], **fields: object) -> dict[str, object]:
    return older(executor_config={"script": {"answers": list(answers)}}, **fields)


def test_a_start_is_told_to_the_gateway_as_the_runners_own_executor_tells_it(gateway: Gateway, tmp_path: Path) -> None:
    answer = {"tools": [{"name": "Read", "input": {"path": "a"}, "output": "b"}], "text": "Hello."}
    ended = one_shot("scripted", gateway.url, tmp_path, scripted(answer, project_dir=str(tmp_path)))

    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout) == {"type": "turn_complete", "result": "Hello."}
    assert gateway.requests[:2] == ["POST /bind", "POST /events"]
    bound = gateway.bodies("POST /bind")[0]
    assert (bound["session_id"], bound["project_dir"]) == ("ses_1", str(tmp_path))
    assert bound["executor_session_id"].startswith("scripted_")
    read = {"tool_name": "Read", "tool_input": {"path": "a"}, "tool_output": "b", "error": None}
    assert gateway.events == [
        said("user", "Hi"),
        {"event_type": "post_tool", "session_id": "ses_1", **read},
        said("assistant", "Hello."),
        resulted("Hello."),
    ]
    times = [body["timestamp"] for body in gateway.bodies("POST /events")]
    assert times == sorted(set(times))


def test_an_answer_under_a_contract_is_told_as_data_alone(gateway: Gateway, tmp_path: Path) -> None:
    blueprint = {"name": "a", "description": None, "output_schema": {"type": "object", "required": ["x"]}}
    ended = one_shot("scripted", gateway.url, tmp_path, scripted({"json": {"x": 1}}, agent_blueprint=blueprint))

    assert json.loads(json.loads(ended.stdout)["result"]) == {"x": 1}
    assert gateway.events == [said("user", "Hi"), resulted(None, {"x": 1})]


def test_parameters_of_a_schema_are_told_as_the_agent_reads_them(gateway: Gateway, tmp_path: Path) -> None:
    blueprint = {"name": "a", "parameters_schema": {"type": "object"}}
    one_shot("echo", gateway.url, tmp_path, older(agent_blueprint=blueprint, parameters={"topic": "bees"}))

    assert gateway.events[0] == said("user", "<inputs>\ntopic: bees\n</inputs>")


def test_a_resume_goes_on_in_the_session_that_the_gateway_names(gateway: Gateway, tmp_path: Path) -> None:
    gateway.known["/sessions/ses_1"] = {
        "session": {"executor_session_id": "made_7", "project_dir": str(tmp_path), "status": "finished"}
    }
    executor = as_program(tmp_path, homemade(tmp_path, RESUMABLE, resume=True))
    ended = one_shot(executor, gateway.url, tmp_path, older(mode="resume"))

    assert (ended.returncode, ended.stdout) == (0, "Hi in made_7\n")
    assert gateway.requests == ["GET /sessions/ses_1", "POST /bind", "PATCH /metadata", "POST /events", "POST /events"]
    assert gateway.bodies("POST /bind")[0]["executor_session_id"] == "made_8"
    assert gateway.bodies("PATCH /metadata")[0].keys() == {"session_id", "last_resumed_at"}


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({}, "session 'ses_1' not found"),
        ({"/sessions/ses_1": {"session": {}}}, "no executor_session_id"),
        ({"/sessions/ses_1": {"session": json.loads("[" * 200 + "]" * 200)}}, "nested deeper than 128 levels"),
    ],
    ids=["unknown", "never bound", "too deep to be read"],
)
def test_a_session_that_cannot_be_resumed_fails(
    gateway: Gateway, tmp_path: Path, known: dict[str, dict[str, Any]], reason: str
) -> None:
    gateway.known = known
    ended = one_shot("scripted", gateway.url, tmp_path, older(mode="resume"))

    assert ended.returncode == 1
    assert reason in ended.stderr
    assert gateway.requests == ["GET /sessions/ses_1"]


def test_turns_go_to_the_process_that_stays(gateway: Gateway, tmp_path: Path) -> None:
    body = "return Result(result_text=f'{task.text} {os.getpid()}', result_data=None, stop_reason='end_turn')"
    executor = as_program(tmp_path, homemade(tmp_path, body, multi_turn=True))
    with Persistent(bridge(executor, gateway.url, tmp_path)) as runner:
        first = runner.answer_to(older())
        second = runner.answer_to(turn("More", run_id="run_2"))
        runner.write({"type": "shutdown"})

        assert runner.wait() == 0
    assert second["run_id"] == "run_2"
    assert second["result"].split() == ["More", first["result"].split()[1]]
    assert [event["content"][0]["text"] for event in gateway.events if event.get("role") == "user"] == ["Hi", "More"]
    assert len(gateway.bodies("POST /bind")) == 1


def test_an_executor_that_does_not_stay_is_resumed_for_each_turn(gateway: Gateway, tmp_path: Path) -> None:
    executor = as_program(tmp_path, homemade(tmp_path, RESUMABLE, resume=True))
    with Persistent(bridge(executor, gateway.url, tmp_path)) as runner:
        answers = [runner.answer_to(line)["result"] for line in (older(), turn("Two"), turn("Three"))]
        runner.close_stdin()

        assert runner.wait() == 0
        assert answers == ["Hi in made_0", "Two in made_1", "Three in made_2"]
    assert [event["content"][0]["text"] for event in gateway.events if event.get("role") == "user"] == [
        "Hi",
        "Two",
        "Three",
    ]


def test_a_failure_is_exit_1_with_its_text_on_stderr(gateway: Gateway, tmp_path: Path) -> None:
    failing = scripted({"fail": {"type": "rate_limited", "message": "too many requests"}})
    ended = one_shot("scripted", gateway.url, tmp_path, failing)

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "Error: rate_limited: too many requests\n"


def test_an_executor_that_just_exits_is_a_failure_with_what_it_wrote(gateway: Gateway, tmp_path: Path) -> None:
    executor = as_program(tmp_path, ["sh", "-c", "'echo no such luck >&2; exit 3'"])
    ended = one_shot(executor, gateway.url, tmp_path, older())

    assert ended.returncode == 1
    assert "missing_terminal: the executor ended with 3" in ended.stderr
    assert "no such luck" in ended.stderr


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({}, "Unsupported schema version in schema_version: None"),
        (older(schema_version="99.0"), "'99.0'. Supported: 2.2"),
        (older(session_id=""), "$.session_id"),
        (older(parameters=None), '$: "parameters" is a required property'),
        (older(mode="invent"), "$.mode"),
    ],
    ids=["empty", "version", "session", "parameters", "mode"],
)
def test_what_is_no_invocation_fails_and_tells_the_gateway_nothing(
    gateway: Gateway, tmp_path: Path, line: dict[str, object], reason: str
) -> None:
    ended = one_shot("echo", gateway.url, tmp_path, line)

    assert ended.returncode == 1
    assert reason in ended.stderr
    assert gateway.calls == []


def test_without_a_gateway_the_run_ends_all_the_same(tmp_path: Path) -> None:
    ended = one_shot("echo", NOBODY_LISTENS, tmp_path, older())

    assert ended.returncode == 0
    assert json.loads(ended.stdout)["result"] == "Hi"
    assert "Warning: POST /bind at the gateway: ConnectionRefusedError" in ended.stderr


def test_a_gateway_that_refuses_is_a_warning(gateway: Gateway, tmp_path: Path) -> None:
    gateway.status = 502
    ended = one_shot("echo", gateway.url, tmp_path, older())

    assert ended.returncode == 0
    assert "Warning: POST /events at the gateway was answered with 502" in ended.stderr


def test_config_of_an_mcp_server_becomes_its_headers(gateway: Gateway, tmp_path: Path) -> None:
    servers = {"a": {"url": "http://x/mcp", "config": {"X-Agent-Session-Id": "ses_1"}}}
    executor = as_program(tmp_path, ["sh", "-c", "'head -n 1 > received'"])
    one_shot(executor, gateway.url, tmp_path, older(agent_blueprint={"mcp_servers": servers}))

    received = json.loads((tmp_path / "received").read_text())
    assert received["agent_blueprint"] == {
        "name": "agent",
        "mcp_servers": {
            "a": {"type": "http", "required": False, "url": "http://x/mcp", "headers": {"X-Agent-Session-Id": "ses_1"}}
        },
    }


def test_a_script_of_the_coordinator_is_run_with_its_arguments(gateway: Gateway, tmp_path: Path) -> None:
    folder = tmp_path / "scripts" / "greet"
    write_command(folder, "greet.sh", 'echo "{\\"said\\": \\"$*\\"}"')
    (folder / "script.json").write_text('{"name": "greet", "script_file": "greet.sh"}')
    agent = {"name": "greeter", "type": "procedural", "parameters_schema": {"type": "object"}, "script": "greet"}
    gateway.known["/agents/greeter"] = agent
    line = older(agent_name="greeter", agent_blueprint=agent, parameters={"to": "you"})
    ended = one_shot("procedural", gateway.url, tmp_path, line, env={"PROJECT_DIR": str(tmp_path)})

    assert ended.returncode == 0, ended.stderr
    assert gateway.events[-1] == resulted(None, {"said": "--to you"})
    assert gateway.bodies("POST /bind")[0]["executor_session_id"] == "procedural-ses_1"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=["TERM", "INT", "KILL"])
def test_a_signal_leaves_no_process(gateway: Gateway, tmp_path: Path, number: signal.Signals) -> None:
    write_command(tmp_path, "tool", "echo > up; sleep 1000")
    blueprint = {"name": "a", "type": "procedural", "command": "tool", "parameters_schema": {"type": "object"}}
    line = older(agent_blueprint=blueprint, parameters={}, project_dir=str(tmp_path))
    with Persistent(bridge("procedural", gateway.url, tmp_path)) as runner:
        runner.write(line)
        wait_until((tmp_path / "up").exists)
        runner.process.send_signal(number)

        assert runner.wait() in {130, -signal.SIGKILL}
        assert processes_in(tmp_path) == []


def test_a_signal_ends_a_bridge_whose_gateway_is_silent(gateway: Gateway, tmp_path: Path) -> None:
    gateway.answers.clear()
    with Persistent(bridge("echo", gateway.url, tmp_path)) as runner:
        runner.write(older())
        wait_until(lambda: bool(gateway.calls))
        runner.process.send_signal(signal.SIGTERM)

        assert runner.wait() == 130
        assert "cancelled" in runner.stderr_after_the_end()


def test_an_answer_that_nobody_reads_does_not_hold_up_the_exit(gateway: Gateway, tmp_path: Path) -> None:
    with Persistent(bridge("echo", gateway.url, tmp_path)) as runner:
        runner.write(older(parameters={"prompt": "x" * 500_000}))
        runner.close_stdin()

        assert runner.wait() == 0
    assert gateway.events[-1]["result_text"] == "x" * 500_000


def test_the_runners_credentials_are_not_handed_on(gateway: Gateway, tmp_path: Path) -> None:
    body = """
    found = os.environ.get("AUTH0_RUNNER_CLIENT_SECRET", "none")
    return Result(result_text=found, result_data=None, stop_reason="end_turn")
    """
    executor = as_program(tmp_path, homemade(tmp_path, body))
    ended = one_shot(executor, gateway.url, tmp_path, older(), env={"AUTH0_RUNNER_CLIENT_SECRET": "top-secret"})

    assert json.loads(ended.stdout)["result"] == "none"
