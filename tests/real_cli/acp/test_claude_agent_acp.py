"""A real agent of the Agent Client Protocol, `claude-agent-acp` of npm, in front of the CLI of the Claude SDK."""

import os
from pathlib import Path
from typing import Any
from uuid import uuid4

from ao_model_simulator import claude_environment
from tests.conftest import StartModel
from tests.process.executors.driver import ExecutorProcess, Run, installed, invocation, run, wait_until
from tests.real_cli.claude_code.claude import SEVERITY_SCHEMA, agent
from tests.real_cli.claude_code.test_ending import processes_with
from tests.real_cli.programs import CLAUDE_CLI, needs_claude_agent

pytestmark = needs_claude_agent
EXECUTOR = [installed("ao-claude-acp-exec")]


def call(command: str) -> dict[str, Any]:
    return {"content": [{"type": "tool_use", "name": "Bash", "input": {"command": command}}]}


def environment(url: str, home: Path, mark: str = "") -> dict[str, str]:
    (home / "tmp").mkdir(exist_ok=True)
    ours = {"PATH": os.environ["PATH"], "CLAUDE_CODE_EXECUTABLE": str(CLAUDE_CLI), "AO_TEST_MARK": mark}
    return claude_environment(url, home) | ours


def ask(start_model: StartModel, home: Path, *answers: dict[str, Any], **fields: Any) -> Run:
    env = environment(start_model(*answers).url, home)
    return run(EXECUTOR, invocation(project_dir=str(home), agent_blueprint=agent(), **fields), env=env)


def test_a_contract_is_kept_and_the_session_continued(start_model: StartModel, tmp_path: Path) -> None:
    wrong, right = {"json": {"severity": "huge"}}, {"json": {"severity": "high"}}
    begun = ask(start_model, tmp_path, wrong, right, output_schema=SEVERITY_SCHEMA)
    session = begun.of_type("session_bound")[-1]["executor_session_id"]
    model = start_model({"text": "High, as I said."})
    continued = run(
        EXECUTOR,
        invocation(mode="resume", executor_session_id=session, project_dir=str(tmp_path), agent_blueprint=agent()),
        env=environment(model.url, tmp_path),
    )

    assert (begun.terminal["result_data"], begun.terminal["output"]["retry_count"]) == ({"severity": "high"}, 1)
    assert "huge" not in begun.stdout.decode().replace(r"\"huge\" is not one of", "")
    assert continued.terminal["result_text"] == "High, as I said."
    assert [event["content"][0]["text"] for event in continued.of_type("message")] == ["High, as I said."]
    (request,) = model.requests  # neither titles nor suggestions are asked for
    assert "You review." in request.system_text
    assert len(request.messages) > 3
    assert begun.terminal["usage"]["output_tokens"] == 100


def test_an_unknown_session_is_not_replaced(start_model: StartModel, tmp_path: Path) -> None:
    ended = ask(start_model, tmp_path, mode="resume", executor_session_id=str(uuid4()))

    assert ended.error["type"] == "session_not_found"


def test_a_denied_tool_does_nothing_and_is_visible(start_model: StartModel, tmp_path: Path) -> None:
    ended = ask(start_model, tmp_path, call("touch made"), {"text": "It was denied."})

    assert ended.terminal["result_text"] == "It was denied."
    (started,), (finished,) = ended.of_type("tool_started"), ended.of_type("tool_finished")
    assert (started["tool_name"], started["tool_input"]["command"]) == ("Bash", "touch made")
    assert finished["status"] == "denied"
    assert not (tmp_path / "made").exists()


def test_a_cancelled_run_leaves_no_process(start_model: StartModel, tmp_path: Path) -> None:
    mark = uuid4().hex
    model = start_model(call("touch begun; tail -f /dev/null"), satisfied=False)
    document = invocation(project_dir=str(tmp_path), executor_config={"access": "all"}, control={"stdin": "open"})
    with ExecutorProcess(EXECUTOR, env=environment(model.url, tmp_path, mark)) as executor:
        executor.write_line(document)
        wait_until((tmp_path / "begun").exists)
        executor.write_line({"type": "cancel"})
        ended = executor.finish()
        wait_until(lambda: not processes_with(mark))

    assert ended.error["type"] == "cancelled"
    assert [finished["status"] for finished in ended.of_type("tool_finished")] == ["cancelled"]


def test_an_error_of_the_api_has_its_type(start_model: StartModel, tmp_path: Path) -> None:
    ended = ask(start_model, tmp_path, {"status": 429, "repeat": "forever"})

    assert ended.error["type"] == "rate_limited"
