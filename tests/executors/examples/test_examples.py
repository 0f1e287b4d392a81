"""The executors in other languages: what the conformance suite does not ask of them, and that it lets them pass."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ao_executors.scaffold.project import make_project
from ao_protocol.vector_store import Vector, load_vectors
from tests.executors.driver import ExecutorProcess, bare_environment, invocation, run
from tests.executors.examples.building import skip_without
from tests.executors.examples.conftest import EXAMPLES, NAME

LINGERING = {"AO_CONFORM_LINGER_SECONDS": "60"}

INPUTS = [vector for vector in load_vectors("inputs") if vector["mode"] == "start"]


def document_of(vector: Vector) -> dict[str, object]:
    schema = vector["parameters_schema"]
    blueprint = {} if schema is None else {"agent_blueprint": {"name": "a", "parameters_schema": schema}}
    return invocation(parameters=vector["parameters"], **blueprint)


def conformance_of(example: list[str], level: str) -> "subprocess.CompletedProcess[str]":
    programs = Path(sys.executable).parent
    command = [str(programs / "ao"), "conformance", "run", "--level", level, "--", *example]
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}  # where `env python3` finds the toolkit
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False, env=environment)


def test_it_answers_under_the_name_that_it_was_given(example: list[str]) -> None:
    described = subprocess.run([*example, "describe"], capture_output=True, timeout=100, check=True)
    ended = run(example, invocation(parameters={"prompt": "Polly"}))

    assert json.loads(described.stdout)["executor"]["name"] == NAME
    assert ended.events[0]["executor"]["name"] == NAME
    assert ended.terminal["result_text"] == "Polly"


@pytest.mark.slow
def test_the_suite_lets_every_example_pass(example: list[str]) -> None:
    played = conformance_of(example, "core")

    assert played.returncode == 0, played.stdout[-3000:]


@pytest.mark.slow
def test_the_example_with_the_toolkit_keeps_the_core(tmp_path: Path) -> None:
    project = make_project("python", tmp_path / "python", NAME)

    played = conformance_of([str(project.folder / project.executable)], "core")

    assert played.returncode == 0, played.stdout[-3000:]


@pytest.mark.slow
def test_the_example_that_asks_a_model_keeps_the_standard_level() -> None:
    skip_without("node", "the node-model example")

    played = conformance_of([str(EXAMPLES / "node-model" / "ao-node-model-exec")], "standard")

    assert played.returncode == 0, played.stdout[-3000:]


@pytest.mark.parametrize("vector", INPUTS[::6], ids=lambda vector: vector["id"])
@pytest.mark.requirement("AOX-140", "AOX-150", "AOX-151", "AOX-152")
def test_the_agent_receives_what_the_vector_says(example: list[str], vector: Vector) -> None:
    ended = run(example, document_of(vector))

    if "text" in vector:
        assert ended.terminal["result_text"] == vector["text"]
    else:
        places = {problem.partition(": ")[0] for problem in ended.error["validation_errors"]}
        assert places == set(vector["problem_at"])


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ({"properties": {"a": {"pattern": "^a+$"}}}, {"missing": ["parameters_schema:pattern"]}),
        ({"allOf": [{"type": "object"}]}, {"missing": ["parameters_schema:allOf"]}),
    ],
    ids=["nested", "outermost"],
)
def test_a_schema_that_it_cannot_judge_is_refused(
    example: list[str], schema: dict[str, Any], error: dict[str, Any]
) -> None:
    ended = run(example, invocation(agent_blueprint={"name": "a", "parameters_schema": schema}))

    assert (ended.error["type"], ended.error["details"], ended.exit_code) == ("unsupported_capability", error, 64)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": 5}},
        {"properties": {"a": {"items": {"title": 5}}}},
        {"additionalProperties": {"required": ["a", "a"]}},
        {"type": [["string"]]},
        {"type": None},
    ],
    ids=json.dumps,
)
@pytest.mark.requirement("AOX-145")
def test_what_is_no_schema_is_refused_wherever_it_stands(example: list[str], schema: dict[str, Any]) -> None:
    ended = run(example, invocation(parameters={}, agent_blueprint={"name": "a", "parameters_schema": schema}))

    assert (ended.error["type"], ended.exit_code) == ("invalid_invocation", 64)


@pytest.mark.requirement("AOX-045")
def test_a_directory_is_found_whose_name_came_in_escapes(example: list[str], tmp_path: Path) -> None:
    (tmp_path / "été").mkdir()
    line = json.dumps(invocation(project_dir=str(tmp_path / "été")), ensure_ascii=True)

    ended = subprocess.run(example, input=f"{line}\n".encode(), capture_output=True, timeout=100, check=False)

    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("behind", ["\0", "\n", "/\0", "\0/.."], ids=repr)
@pytest.mark.requirement("AOX-045")
def test_a_directory_is_not_found_by_a_part_of_its_name(example: list[str], tmp_path: Path, behind: str) -> None:
    ended = run(example, invocation(project_dir=f"{tmp_path}{behind}"))

    assert (ended.error["type"], ended.exit_code) == ("workspace_error", 1)


@pytest.mark.parametrize("prompt", ["ä" * 10_000, "😀" * 10_000, "\n" * 10_000], ids=["two bytes", "four", "escaped"])
@pytest.mark.requirement("AOX-028", "AOX-029")
def test_a_long_answer_is_cut_between_characters_where_the_line_is_full(example: list[str], prompt: str) -> None:
    ended = run(example, invocation(parameters={"prompt": prompt}, limits={"max_event_bytes": 4096}))

    answer = ended.terminal["result_text"]
    assert prompt.startswith(answer)
    assert (ended.terminal["truncated"], ended.terminal["original_bytes"]) == (True, len(prompt.encode()))
    assert 4096 - 16 < max(map(len, ended.stdout.splitlines(keepends=True))) <= 4096


@pytest.mark.requirement("AOX-063")
@pytest.mark.requirement("AOX-062")
def test_only_a_whole_cancel_cancels(example: list[str]) -> None:
    with ExecutorProcess.start(example, env=bare_environment() | LINGERING) as executor:
        executor.write_line(invocation(control={"stdin": "open"}))
        executor.read_event()
        executor.write(b'{"type":"cancel","type":"cancel"}\n\xff\n{"type":"cancel","reason":7}\n{"type":"cancel"}\n')
        ended = executor.finish()

    assert (ended.error["type"], ended.exit_code) == ("cancelled", 130)


@pytest.mark.requirement("AOX-196")
def test_sigterm_cancels_a_run_that_lasts(example: list[str]) -> None:
    with ExecutorProcess.start(example, env=bare_environment() | LINGERING) as executor:
        executor.write_line(invocation())
        executor.read_event()
        executor.signal(signal.SIGTERM)
        ended = executor.finish()

    assert (ended.error["type"], ended.exit_code) == ("cancelled", 130)
