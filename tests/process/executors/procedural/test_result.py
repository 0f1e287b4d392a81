"""What a command's end becomes."""

from pathlib import Path
from typing import Any

import pytest

from tests.process.executors.driver import Run, run
from tests.process.executors.procedural.programs import PROCEDURAL, start_of, write_command

SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


def printed(folder: Path, script: str, **fields: Any) -> Run:
    write_command(folder, "tool", script)
    return run(PROCEDURAL, start_of(folder, "tool", **fields))


@pytest.mark.requirement("AOX-075")
@pytest.mark.parametrize(
    ("stdout", "data"),
    [('{"n": 1}', {"n": 1}), (" [1, 2]\n\n", [1, 2]), ('"text"', "text"), ("5", 5), ("false", False), ("\ufeff{}", {})],
    ids=["object", "list", "string", "number", "false", "byte-order mark"],
)
def test_json_on_stdout_is_the_result(tmp_path: Path, stdout: str, data: object) -> None:
    (tmp_path / "out").write_text(stdout, encoding="utf-8")
    ended = printed(tmp_path, "cat out; echo noise >&2")

    assert ended.terminal["result_data"] == data
    assert ended.terminal["result_text"] is None
    assert ended.terminal["stop_reason"] == "completed"
    assert ended.exit_code == 0


@pytest.mark.parametrize(
    "stdout",
    [
        "",
        "plain",
        '{"n": 1} and more',
        '{"n": 1}\n{"n": 2}',
        '{"n": NaN}',
        '{"n":1,"n":2}',
        '1,"x":2',
        "null",
        "[" * 99,
    ],
    ids=["nothing", "text", "text behind", "two", "NaN", "a key twice", "an injection", "null", "broken"],
)
def test_anything_else_is_return_code_stdout_and_stderr(tmp_path: Path, stdout: str) -> None:
    (tmp_path / "out").write_text(stdout, encoding="utf-8")
    ended = printed(tmp_path, "cat out; echo warned >&2")

    assert ended.terminal["result_data"] == {"return_code": 0, "stdout": stdout, "stderr": "warned\n"}
    assert ended.exit_code == 0


@pytest.mark.parametrize(
    ("script", "code"), [("echo '{}'; exit 3", 3), ("echo '{}'; kill -9 $$", -9)], ids=["exit code", "signal"]
)
def test_a_command_that_does_not_end_well_has_no_json_result(tmp_path: Path, script: str, code: int) -> None:
    ended = printed(tmp_path, script)

    assert ended.terminal["result_data"] == {"return_code": code, "stdout": "{}\n", "stderr": ""}
    assert ended.of_type("tool_finished")[0]["status"] == "failed"


def test_the_run_of_the_command_is_told_as_a_tool_call(tmp_path: Path) -> None:
    write_command(tmp_path, "tool", "echo 1234")
    ended = run(PROCEDURAL, start_of(tmp_path, "tool", {"x": 1}))

    started, finished = ended.events[1:3]
    assert (started["tool_name"], started["tool_input"]) == ("tool", {"arguments": ["--x", "1"]})
    assert finished["status"] == "completed"
    assert finished["tool_output"] == {"return_code": 0, "stdout_bytes": 5, "stderr_bytes": 0}


@pytest.mark.requirement("AOX-029")
def test_of_long_text_the_end_is_kept_and_marked(tmp_path: Path) -> None:
    ended = printed(tmp_path, "seq 1 10000; echo short >&2", limits={"max_event_bytes": 4096})

    data = ended.terminal["result_data"]
    assert data["stdout"].endswith("9999\n10000\n")
    assert data["stderr"] == "short\n"
    assert (data["truncated"], data["stdout_bytes"], data["stderr_bytes"]) == (True, 48894, 6)
    assert ended.exit_code == 0


def test_only_the_last_bytes_are_kept_in_memory(tmp_path: Path) -> None:
    ended = printed(tmp_path, "seq 1 100000", executor_config={"max_output_bytes": 1024})

    data = ended.terminal["result_data"]
    assert (len(data["stdout"]), data["stdout_bytes"]) == (1024, 588895)


@pytest.mark.requirement("AOX-029")
def test_json_that_does_not_fit_an_event_is_not_cut(tmp_path: Path) -> None:
    script = "printf '['; seq -s, 1 2000; printf ']'"
    ended = printed(tmp_path, script, limits={"max_event_bytes": 4096})

    assert ended.error["type"] == "limit_exceeded"


@pytest.mark.requirement("AOX-173", "AOX-174", "AOX-175")
@pytest.mark.parametrize(
    ("fields", "error_type"),
    [
        ({"blueprint": {"output_schema": SCHEMA}}, "output_schema_validation_failed"),
        ({"output_schema": SCHEMA}, "schema_validation_failed"),
    ],
    ids=["the designer's", "the caller's"],
)
def test_a_schema_that_is_not_kept_fails_the_run_without_a_retry(
    tmp_path: Path, fields: dict[str, Any], error_type: str
) -> None:
    ended = printed(tmp_path, 'echo >> runs; echo \'{"n": "MARK"}\'; echo hint >&2', **fields)

    assert ended.error["type"] == error_type
    assert ended.error["validation_errors"] == ['$.n: "MARK" is not of type "integer"']
    assert ended.error["origin"] == "tool"
    assert ended.error["details"] == {"return_code": 0, "stderr": "hint\n"}
    (verdict,) = ended.of_type("output_validation")
    assert (verdict["attempt"], verdict["valid"], verdict["retries_left"]) == (1, False, 0)
    assert (tmp_path / "runs").read_text() == "\n"
    assert b'"MARK"' not in ended.stdout


def test_a_command_that_fails_under_a_schema_says_how(tmp_path: Path) -> None:
    ended = printed(tmp_path, "echo '{\"n\": 1}'; echo no disk >&2; exit 4", blueprint={"output_schema": SCHEMA})

    assert ended.error["type"] == "output_schema_validation_failed"
    assert ended.error["details"] == {"return_code": 4, "stderr": "no disk\n"}


def test_the_three_fields_may_be_what_the_schema_wants(tmp_path: Path) -> None:
    schema = {"required": ["return_code"], "properties": {"return_code": {"const": 4}}}
    ended = printed(tmp_path, "exit 4", blueprint={"output_schema": schema})

    assert ended.terminal["result_data"]["return_code"] == 4


@pytest.mark.requirement("AOX-075")
def test_null_is_a_result_where_the_schema_wants_it(tmp_path: Path) -> None:
    ended = printed(tmp_path, "echo null", blueprint={"output_schema": {"type": "null"}})

    assert ended.terminal["result_data"] is None


def test_more_than_is_kept_cannot_be_judged(tmp_path: Path) -> None:
    ended = printed(
        tmp_path, "seq 1 10000", blueprint={"output_schema": {}}, executor_config={"max_output_bytes": 1024}
    )

    assert ended.error["type"] == "limit_exceeded"
    assert "max_output_bytes" in ended.error["message"]


XML = '<agent_response agent="linter" version="1.0"><summary>Clean</summary></agent_response>'
RESPONSE = {"output_format": {"type": "agent_response", "form": "xml"}}


@pytest.mark.requirement("AOX-182")
def test_a_program_may_write_an_agents_response(tmp_path: Path) -> None:
    ended = printed(tmp_path, f"echo linting; echo '{XML}'", blueprint=RESPONSE)

    assert ended.terminal["result_data"] == {"agent": "linter", "version": "1.0", "summary": "Clean", "findings": []}


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo clean", "expected a response written as xml"),
        (f"echo '{XML}'; exit 3", "$: the command exited with 3"),
    ],
    ids=["no response", "ended badly"],
)
def test_a_program_that_writes_no_response_breaks_its_contract(tmp_path: Path, script: str, problem: str) -> None:
    ended = printed(tmp_path, script, blueprint=RESPONSE)

    assert ended.error["type"] == "output_schema_validation_failed"
    assert problem in ended.error["validation_errors"][0]


def test_bytes_that_are_not_utf8_become_replacement_characters(tmp_path: Path) -> None:
    ended = printed(tmp_path, r"printf 'a\377b'")

    assert ended.terminal["result_data"]["stdout"] == "a\ufffdb"
