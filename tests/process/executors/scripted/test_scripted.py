"""`ao-scripted-exec` plays what its script says."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.process.executors.driver import ExecutorProcess, Run, installed, invocation, run

SCRIPTED = [installed("ao-scripted-exec")]
HELLO = {"text": "Hello."}


def played(*answers: dict[str, Any], **fields: Any) -> dict[str, object]:
    return invocation(executor_config={"script": {"answers": answers}}, **fields)


def play(*answers: dict[str, Any], **fields: Any) -> Run:
    return run(SCRIPTED, played(*answers, **fields))


def test_it_answers_with_a_text() -> None:
    ended = play(HELLO)

    assert ended.types == ["run_started", "session_bound", "session_bound", "message", "result"]
    assert ended.terminal["result_text"] == "Hello."


def test_it_answers_with_json_as_a_model_would_write_it() -> None:
    assert play({"json": {"ü": [1]}}).terminal["result_text"] == '{"ü": [1]}'


@pytest.mark.requirement("AOX-093", "AOX-103")
def test_it_plays_messages_and_tools_in_order() -> None:
    tools = [
        {"name": "Read", "input": {"path": "a"}, "output": "text", "seconds": 0.01},
        {"name": "Bash", "error": "no such command"},
    ]
    ended = play({**HELLO, "messages": ["I look."], "tools": tools})

    assert [event["content"][0]["text"] for event in ended.of_type("message")] == ["I look.", "Hello."]
    read, bash = ended.of_type("tool_finished")
    assert (read["status"], read["tool_input"], read["tool_output"]) == ("completed", {"path": "a"}, "text")
    assert (bash["status"], bash["error"]) == ("failed", "no such command")


@pytest.mark.requirement("AOX-078")
def test_its_usage_adds_up() -> None:
    ended = play(
        {"text": "no", "usage": {"input_tokens": 10, "cost_usd": 0.5}},
        {"text": "1", "usage": {"input_tokens": 5, "output_tokens": 7}},
        output_schema={"type": "integer"},
    )

    assert [event["input_tokens"] for event in ended.of_type("usage")] == [10, 15]
    assert ended.terminal["usage"] == {"input_tokens": 15, "output_tokens": 7, "cost_usd": 0.5}


@pytest.mark.requirement("AOX-077")
def test_a_transient_failure_is_a_scheduled_retry() -> None:
    retry = {"type": "rate_limited", "message": "429", "delay_seconds": 0.01}
    ended = play({**HELLO, "retry": retry})

    (event,) = ended.of_type("retry_scheduled")
    assert event["error"] == {"type": "rate_limited", "message": "429"}
    assert event["delay_seconds"] == 0.01
    assert ended.exit_code == 0


@pytest.mark.requirement("AOX-106")
def test_it_fails_as_the_script_says() -> None:
    ended = play({"fail": {"type": "rate_limited", "message": "slow down", "retry_after_seconds": 20}})

    assert ended.error == {
        "type": "rate_limited",
        "message": "slow down",
        "retryable": True,
        "side_effects": "none",
        "origin": "provider",
        "retry_after_seconds": 20,
    }
    assert ended.exit_code == 75


@pytest.mark.requirement("AOX-055", "AOX-082")
def test_a_resume_goes_on_behind_the_last_answer() -> None:
    script = [{"text": "first"}, {"text": "second"}, {"text": "third"}]
    first = play(*script)
    bound = first.of_type("session_bound")[-1]["executor_session_id"]
    second = play(*script, mode="resume", executor_session_id=bound)
    bound = second.of_type("session_bound")[-1]["executor_session_id"]
    third = play(*script, mode="resume", executor_session_id=bound)

    assert [ended.terminal["result_text"] for ended in (first, second, third)] == ["first", "second", "third"]


def test_a_script_that_has_no_answer_left_says_so() -> None:
    ended = play({"text": "no"}, output_schema={"type": "integer"})

    assert ended.error["message"] == "the script has 1 answers, and answer 2 was asked for; add one"


def test_a_script_may_begin_again() -> None:
    config = {"script": {"answers": [{"text": "no"}, {"text": "3"}], "repeat": True}}
    ended = run(
        SCRIPTED,
        invocation(
            executor_config=config,
            mode="resume",
            executor_session_id="scripted_0123456789abcdef_40",
            output_schema={"type": "integer"},
        ),
    )

    assert ended.terminal["result_data"] == 3


@pytest.mark.parametrize(
    ("fault", "code"),
    [("exit", 0), ("crash", -signal.SIGABRT), ("kill", -signal.SIGKILL)],
    ids=["exit", "crash", "kill"],
)
def test_a_fault_ends_the_process_without_a_terminal_event(fault: str, code: int) -> None:
    with ExecutorProcess(SCRIPTED) as executor:
        executor.write_line(played({"fault": fault}))
        types = [event["event_type"] for event in executor.events()]
        assert executor.wait() == code

    assert types == ["run_started", "session_bound"]


def test_the_fault_garbage_is_a_line_that_is_no_event() -> None:
    with ExecutorProcess(SCRIPTED) as executor:
        executor.write_line(played({**HELLO, "fault": "garbage"}))
        with pytest.raises(ValueError, match="not JSON"):
            list(executor.events())


@pytest.mark.requirement("AOX-196")
@pytest.mark.parametrize("fault", ["hang", "block"])
def test_a_run_that_hangs_can_be_cancelled(fault: str) -> None:
    with ExecutorProcess(SCRIPTED) as executor:
        executor.write_line(played({"fault": fault}, limits={"cancel_grace_seconds": 0.5}))
        executor.read_until("session_bound")
        executor.signal(signal.SIGTERM)
        assert executor.finish(timeout=100).exit_code == 130


@pytest.mark.parametrize("name", ["script.json", "script.yaml"])
def test_a_script_may_stand_in_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"answers": [{"text": "from a file"}]}')
    ended = run(SCRIPTED, invocation(executor_config={"script_file": str(tmp_path / name)}))

    assert ended.terminal["result_text"] == "from a file"


@pytest.mark.requirement("AOX-046")
@pytest.mark.parametrize(("name", "text"), [("broken.yaml", "answers: ["), ("broken.json", "{"), ("odd.yml", "\x00")])
def test_a_script_file_that_is_no_script_is_refused_by_its_name(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)

    ended = run(SCRIPTED, invocation(executor_config={"script_file": str(tmp_path / name)}))

    assert (ended.error["type"], ended.exit_code) == ("invalid_executor_config", 64)
    assert f"$.script_file: {tmp_path / name} cannot be read: " in ended.error["message"]


@pytest.mark.requirement("AOX-046")
@pytest.mark.parametrize(
    "config",
    [
        {},
        {"script": {}},
        {"script": {"answers": [{"txet": "typo"}]}},
        {"script": {"answers": [{"fail": {"type": "executor_crashed", "message": "not mine to say"}}]}},
        {"script_file": "relative.json"},
        {"script_file": "/absent/script.json"},
    ],
    ids=["none", "no answers", "unknown field", "a runner's failure", "relative file", "absent file"],
)
def test_a_script_that_cannot_be_played_is_refused(config: dict[str, Any]) -> None:
    ended = run(SCRIPTED, invocation(executor_config=config))

    assert (ended.error["type"], ended.exit_code) == ("invalid_executor_config", 64)
    assert ended.error["details"]["violations"][0].keys() == {"pointer", "message"}


def test_the_example_of_its_page_runs(tmp_path: Path) -> None:
    page = Path(__file__).parents[4] / "docs" / "scripted-executor.md"
    script = page.read_text(encoding="utf-8").split("```json\n")[1].split("```")[0]
    ended = run(
        SCRIPTED,
        invocation(
            executor_config={"script": json.loads(script)}, output_schema={"type": "object", "required": ["issues"]}
        ),
        cwd=tmp_path,
    )

    assert ended.terminal["result_data"] == {"issues": []}
    assert ended.terminal["output"]["retry_count"] == 1
