"""Any program that takes a prompt and prints an answer, run by `ao-command-exec`."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.process.executors.driver import ExecutorProcess, Run, installed, invocation, run, wait_until

COMMAND = [installed("ao-command-exec")]
SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
BLUEPRINT = {"name": "a", "system_prompt": "Be brief."}
SHOW = 'printf "[%s]" "$@"; cat'


def script(folder: Path, text: str) -> str:
    path = folder / "tool"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return "./tool"


def ask(folder: Path, text: str, *arguments: str, config: dict[str, Any] | None = None, **fields: Any) -> Run:
    """Ask a shell script, in its folder."""
    program = script(folder, text)
    whole = {"argv": [program, *arguments], **(config or {})}
    for name in {"resume_argv"} & whole.keys():
        whole[name] = [program, *whole[name]]
    return run(COMMAND, invocation(project_dir=str(folder), executor_config=whole, **fields))


def test_the_prompt_is_stdin_and_the_answer_is_what_is_printed(tmp_path: Path) -> None:
    ended = ask(tmp_path, 'read -r line; echo; echo "You said $line"', parameters={"prompt": "Grüße $(ls)"})

    assert ended.types == ["run_started", "message", "result"]
    assert ended.terminal["result_text"] == "You said Grüße $(ls)"
    assert ended.exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["-s", "{system_prompt}"], "[-s][Be brief.]Hi"),
        (["--prompt={prompt}"], "[--prompt=Be brief.\n\nHi]"),
        (["{system_prompt}", "<{prompt}>"], "[Be brief.][<Hi>]"),
        (["{other}", "{}"], "[{other}][{}]Be brief.\n\nHi"),
    ],
    ids=["system prompt", "prompt", "both", "neither"],
)
def test_placeholders_are_replaced(tmp_path: Path, arguments: list[str], shown: str) -> None:
    assert ask(tmp_path, SHOW, *arguments, agent_blueprint=BLUEPRINT).terminal["result_text"] == shown


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [(["{prompt}"], "[ --yolo {session_id}]"), (["--", "{prompt}"], "[--][--yolo {session_id}]")],
    ids=["among options", "behind --"],
)
def test_a_prompt_is_neither_an_option_nor_a_template(tmp_path: Path, arguments: list[str], shown: str) -> None:
    ended = ask(tmp_path, SHOW, *arguments, parameters={"prompt": "--yolo {session_id}"})

    assert ended.terminal["result_text"] == shown


@pytest.mark.parametrize("prompt", ["x" * 200_000, "a\0b"], ids=["too long", "NUL"])
def test_a_prompt_that_is_no_argument_is_told_to_be_stdin(tmp_path: Path, prompt: str) -> None:
    refused = ask(tmp_path, "touch worked", "{prompt}", parameters={"prompt": prompt})
    taken = ask(tmp_path, "wc -c", parameters={"prompt": prompt})

    assert (refused.error["type"], refused.error["origin"]) == ("limit_exceeded", "caller")
    assert "leave {prompt} out" in refused.error["message"]
    assert not (tmp_path / "worked").exists()
    assert taken.terminal["result_text"] == str(len(prompt))


def test_a_program_need_not_read_its_prompt(tmp_path: Path) -> None:
    assert ask(tmp_path, "echo done", parameters={"prompt": "x" * 1_000_000}).terminal["result_text"] == "done"


@pytest.mark.requirement("AOX-171", "AOX-176")
def test_a_program_without_sessions_is_shown_what_was_said_before_it_is_asked_again(tmp_path: Path) -> None:
    text = 'cat > asked; if grep -q "validation-error" asked; then echo \'{"n": 1}\'; else echo No; fi'
    ended = ask(tmp_path, text, agent_blueprint={**BLUEPRINT, "output_schema": SCHEMA})

    assert (ended.terminal["result_data"], ended.terminal["output"]["retry_count"]) == ({"n": 1}, 1)
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith("Be brief.\n\n## Required Output Format\n")
    assert "\n\nHi\n\nYour answer was:\n\nNo\n\n<output-validation-error>" in asked


@pytest.mark.requirement("AOX-082")
def test_a_session_that_the_program_names_is_found_in_its_output(tmp_path: Path) -> None:
    config = {
        "resume_argv": ["--resume", "{session_id}"],
        "session_pattern": '"session": "([^"]+)"',
        "output": "$.0.answer.text",
    }
    text = """echo noise; echo '[{"session": "prog-'$#'", "answer": {"text": "ran '"$*"'"}}]'"""
    first = ask(tmp_path, text, config=config)
    second = ask(tmp_path, text, config=config, mode="resume", executor_session_id="prog-0")

    assert first.types == ["run_started", "session_bound", "message", "result"]
    assert [event["executor_session_id"] for event in first.of_type("session_bound")] == ["prog-0"]
    assert second.terminal["result_text"] == "ran --resume prog-0"
    assert [event["executor_session_id"] for event in second.of_type("session_bound")] == ["prog-0", "prog-2"]


def test_an_answer_cannot_name_the_session(tmp_path: Path) -> None:
    config = {"resume_argv": ["{session_id}"], "session_pattern": "session ([a-z]+)"}
    ended = ask(tmp_path, "echo session evil; echo session good >&2", config=config)
    without = ask(tmp_path, "echo session evil", config=config)

    assert [event["executor_session_id"] for event in ended.of_type("session_bound")] == ["good"]
    assert without.types == ["run_started", "log", "message", "result"]


@pytest.mark.requirement("AOX-056")
@pytest.mark.parametrize("session", ["../../etc/passwd", "--yolo", "a b", "a\0b"])
def test_a_session_is_neither_a_path_nor_an_option(tmp_path: Path, session: str) -> None:
    config = {"resume_argv": ["{session_id}"]}
    ended = ask(tmp_path, "touch worked", "{session_id}", config=config, mode="resume", executor_session_id=session)

    assert ended.error["type"] == "session_not_found"
    assert not (tmp_path / "worked").exists()


def test_without_resume_argv_nothing_is_resumed(tmp_path: Path) -> None:
    started = ask(tmp_path, "echo done")
    resumed = ask(tmp_path, "touch worked", mode="resume", executor_session_id="some")

    assert started.of_type("session_bound") == []
    assert (resumed.error["type"], resumed.error["details"]) == ("unsupported_capability", {"missing": ["resume"]})
    assert resumed.exit_code == 64
    assert not (tmp_path / "worked").exists()


@pytest.mark.parametrize(
    ("ends", "error_type", "exit_code"),
    [
        ("exit 3", "rate_limited", 75),
        ("exit 5", "tool_failed", 1),
        ("echo 'status 401: bad key' >&2; exit 3", "authentication_failed", 1),
        ("kill -9 $$", "tool_failed", 1),
    ],
    ids=["its exit code", "another exit code", "a pattern", "a signal"],
)
def test_what_a_failure_means_is_configured(tmp_path: Path, ends: str, error_type: str, exit_code: int) -> None:
    config = {"exit_codes": {"3": "rate_limited"}, "error_patterns": {"status 401": "authentication_failed"}}
    ended = ask(tmp_path, ends, config=config)

    assert (ended.error["type"], ended.exit_code) == (error_type, exit_code)
    assert ended.error["side_effects"] == "possible"


@pytest.mark.requirement("AOX-106")
def test_a_failure_tells_the_end_of_stderr_and_the_delay(tmp_path: Path) -> None:
    config = {"error_patterns": {"try again in (?P<retry_after_seconds>[0-9.]+) ?s": "rate_limited"}}
    ended = ask(tmp_path, "yes | head -c 100000 >&2; echo; echo 'busy, try again in 1.5s' >&2; exit 1", config=config)

    assert ended.error["message"].startswith("./tool exited with 1: ")
    assert ended.error["message"].endswith("y\nbusy, try again in 1.5s")
    assert len(ended.error["message"]) < 3000
    assert (ended.error["type"], ended.error["retry_after_seconds"]) == ("rate_limited", 1.5)


@pytest.mark.parametrize("printed", ["no JSON", '{"other": 1}', "[" * 100_000], ids=["text", "other keys", "too deep"])
def test_json_without_the_answer_is_a_failure(tmp_path: Path, printed: str) -> None:
    (tmp_path / "printed").write_text(printed)
    ended = ask(tmp_path, "cat printed", config={"output": "$.response"})

    assert ended.error["type"] == "tool_failed"
    assert "printed no JSON with $.response" in ended.error["message"]


def test_the_last_line_of_json_that_has_the_answer_counts(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text('{"text": "first"}\na log\n{"text": {"n": 1}}\n{"usage": 2}\n')
    ended = ask(tmp_path, "cat lines", config={"output": "$.text"})

    assert json.loads(ended.terminal["result_text"]) == {"n": 1}


def test_too_much_output_is_a_failure(tmp_path: Path) -> None:
    ended = ask(tmp_path, "head -c 9000000 /dev/zero")

    assert ended.error["type"] == "limit_exceeded"
    assert "printed 9000000 bytes" in ended.error["message"]


@pytest.mark.requirement("AOX-192")
@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("no-such-program", "pip install it"),
        ("./no-such-program", "pip install it"),
        ("./plain", "plain is not executable; chmod +x ./plain"),
    ],
)
def test_a_missing_program_is_a_missing_dependency(tmp_path: Path, name: str, advice: str) -> None:
    (tmp_path / "plain").write_text("no program")
    config = {"argv": [name], "install_hint": "pip install it"}
    ended = run(COMMAND, invocation(project_dir=str(tmp_path), executor_config=config))

    assert (ended.error["type"], ended.error["origin"], ended.exit_code) == ("dependency_missing", "environment", 1)
    assert repr(name) in ended.error["message"]
    assert ended.error["message"].endswith(advice)
    assert ended.error["side_effects"] == "none"


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, '"argv" is a required property'),
        ({"argv": []}, "$.argv"),
        ({"argv": ["x"], "resume_argv": ["x", "-c"]}, "$.resume_argv: has no {session_id}"),
        ({"argv": ["x"], "resume_argv": ["x", "{session_id}"]}, "$.argv: has no {session_id}"),
        ({"argv": ["x"], "session_pattern": "id"}, "$.session_pattern: 'id' has no group"),
        ({"argv": ["x"], "error_patterns": {"(": "tool_failed"}}, "'(' is no regular expression"),
        ({"argv": ["x"], "exit_codes": {"0": "tool_failed"}}, "exit_codes"),
        ({"argv": ["x"], "exit_codes": {"3": "cancelled"}}, "cancelled"),
        ({"argv": ["x"], "output": "response"}, "$.output"),
    ],
)
def test_a_wrong_configuration_is_refused(config: dict[str, Any], reason: str) -> None:
    ended = run(COMMAND, invocation(executor_config=config))

    assert (ended.error["type"], ended.exit_code) == ("invalid_executor_config", 64)
    assert reason in ended.error["message"]
    assert ended.error["details"]["violations"]


@pytest.mark.requirement("AOX-194", "AOX-196")
def test_a_cancel_ends_the_program_and_all_that_it_started(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "up")
    argv = [script(tmp_path, "trap '' TERM; sleep 1000 & echo $! > up; while true; do sleep 1; done")]
    limits = {"cancel_grace_seconds": 1}
    with ExecutorProcess(COMMAND) as executor:
        executor.write_line(invocation(project_dir=str(tmp_path), executor_config={"argv": argv}, limits=limits))
        child = Path("/proc", (tmp_path / "up").read_text().strip())
        executor.signal(signal.SIGTERM)
        ended = executor.finish()

    assert (ended.error["type"], ended.exit_code) == ("cancelled", 130)
    wait_until(lambda: not child.exists())


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"error_patterns": {"^(a+)+$x": "rate_limited"}}, "executor_config.error_patterns"),
        ({"resume_argv": ["{session_id}"], "session_pattern": "^(a+)+$x()"}, "executor_config.session_pattern"),
    ],
    ids=["error_patterns", "session_pattern"],
)
def test_a_pattern_that_takes_too_long_finds_nothing_and_the_run_ends(
    tmp_path: Path, config: dict[str, Any], told: str
) -> None:
    ended = ask(tmp_path, "printf '%0100d' 0 | tr 0 a >&2; echo hi; exit 3", config=config)
    sentences = [event["message"] for event in ended.events if event["event_type"] == "log"]
    sentences.append(ended.terminal["error"]["message"])

    assert ended.terminal["error"]["type"] == "tool_failed"
    assert [said for said in sentences if f"{told}: the search for '^(a+)+$x" in said and "longer than 1 s" in said]


def test_a_session_is_busy_before_its_program_has_made_its_file(tmp_path: Path) -> None:
    text = 'cat > /dev/null; while [ ! -e go ]; do sleep 0.05; done; touch "$1"; echo done'
    config = {"session_file": "{session_id}", "resume_argv": ["{session_id}"]}
    program = script(tmp_path, text)
    whole = {**config, "argv": [program, "{session_id}"], "resume_argv": [program, "{session_id}"]}
    with ExecutorProcess(COMMAND) as first:
        first.write_line(invocation(project_dir=str(tmp_path), executor_config=whole))
        session = first.read_until("session_bound")["executor_session_id"]
        second = ask(tmp_path, text, "{session_id}", config=config, mode="resume", executor_session_id=session)
        (tmp_path / "go").touch()
        ended = first.finish()

    assert second.error["type"] == "session_busy"
    assert ended.terminal["result_text"] == "done"
