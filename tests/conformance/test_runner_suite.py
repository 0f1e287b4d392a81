"""The suite for runners: its vectors, its command line, and the verdict on two runners."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ao_conformance.cli.suites import runner_command
from ao_conformance.runner_suite.runner_play import Note, forms_of, passed_by, play, stops_of
from ao_conformance.runner_suite.running import RunnerPlan, run_runner_suite
from ao_conformance.runner_suite.stage import (
    OUR_ATTACH_OPTIONS,
    PLACEHOLDERS,
    RunnerVector,
    attaching,
    filled_command,
    load_runner_vectors,
    our_command,
    our_resume_command,
)
from ao_conformance.verdict import Verdict
from ao_protocol.published import load_requirements
from tests.process.executors.examples.building import skip_without

ROOT = Path(__file__).parents[2]
VECTORS = load_runner_vectors()
PLAIN = ("{executor}", "{blueprint}", "{prompt}", "{project_dir}")
NODE = ROOT / "docs" / "examples" / "runner-node" / "runner.mjs"
NODE_LINES = 250
REFERENCE = ("env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.conformance.runners.reference")


def named(*ids: str) -> list[RunnerVector]:
    return [vector for vector in VECTORS if vector.id in ids]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(runner_command, list(arguments))


def test_every_demand_on_runners_has_a_vector_or_a_reason_why_nobody_can_test_it() -> None:
    covered = {name for vector in VECTORS for name in vector.requirements}

    assert [
        rule.id
        for rule in load_requirements()
        if rule.level == "runner" and rule.id not in covered and not rule.untestable
    ] == []


def test_blame_falls_on_a_requirement_that_the_vector_names() -> None:
    blamed = {
        (vector.id, name)
        for vector in VECTORS
        for name in vector.source.get("blame", {}).values()
        if name not in vector.requirements
    }

    assert blamed == set()


def test_a_cancel_comes_at_a_mark_that_the_play_has() -> None:
    for vector in VECTORS:
        if "cancel" in vector.given:
            steps = [*vector.executor["play"], *vector.executor.get("describe", [])]
            assert {"mark": vector.given["cancel"]["at"]} in steps, vector.id


def test_placeholders_are_filled_in_wherever_they_stand_in_an_argument() -> None:
    values = dict.fromkeys(PLACEHOLDERS, "x")

    argv = filled_command(["r", "--in={project_dir}/a", "{prompt}{prompt}", "{other}"], values)

    assert argv == ["r", "--in=x/a", "xx", "{other}"]


def test_a_stop_is_what_a_run_of_the_executor_noticed_in_its_order() -> None:
    notes = [
        Note("describe", 0.0, 6),
        Note("signal", 0.1, 6, {"name": "TERM"}),
        Note("run", 1.0, 7),
        Note("control", 2.0, 7, {"line": {"type": "cancel"}}),
        Note("control", 2.1, 7, {"line": {"type": "from_tomorrow"}}),
        Note("eof", 3.0, 7),
        Note("signal", 4.0, 7, {"name": "TERM"}),
    ]

    assert stops_of(notes) == [("cancel", 2.0), ("eof", 3.0), ("TERM", 4.0)]


@pytest.mark.parametrize(
    ("child", "leaves_at", "passed"),
    [
        pytest.param({"group": 7, "ignores": []}, 5.0, [8], id="in the group"),
        pytest.param({"group": 8, "ignores": []}, 5.0, [], id="in a group of its own"),
        pytest.param({"group": 7, "ignores": ["TERM"]}, 5.0, [], id="it ignores it"),
        pytest.param({"group": 7, "ignores": []}, 1.5, [], id="the leader left at once"),
    ],
)
def test_a_process_was_passed_by_where_only_its_leader_heard_of_sigterm(
    child: dict[str, object], leaves_at: float, passed: list[int]
) -> None:
    notes = [
        Note("run", 0.0, 7, {"group": 7}),
        Note("descendant", 0.5, 8, child),
        Note("signal", 1.0, 7, {"name": "TERM"}),
        Note("leaves", leaves_at, 7),
    ]

    assert passed_by(notes) == passed
    assert passed_by([*notes, Note("signal", 1.0, 8, {"name": "TERM"})]) == []


def test_a_secret_is_looked_for_in_forms_that_do_not_depend_on_what_stands_behind_it() -> None:
    assert forms_of('abc/"x') == {"as it is or escaped": b"abc", "base64": b"YWJjLyJ"}


@pytest.mark.requirement("AOX-235")
@pytest.mark.requirement("AOX-242")
@pytest.mark.requirement("AOX-246")
def test_ao_run_passes_what_it_passes() -> None:
    result = run_runner_suite(
        RunnerPlan(our_command(), named("runner-verbatim", "runner-noise", "runner-cancel-is-asked"))
    )

    assert [vector.findings for vector in result.vectors] == [(), (), ()]
    assert result.exit_code == 0
    assert (result.suite, result.name, result.executed) == ("runner", "ao", 3)


@pytest.mark.requirement("AOX-238")
@pytest.mark.requirement("AOX-239")
@pytest.mark.parametrize("vector", [vector for vector in VECTORS if "-refuses-" in vector.id], ids=lambda one: one.id)
def test_ao_run_exits_with_64_where_it_refuses_a_run_and_with_2_where_there_is_none(vector: RunnerVector) -> None:
    played = play(vector, attaching(our_command(), OUR_ATTACH_OPTIONS, vector), our_resume_command())

    assert played.exit_code == (64 if played.lines else 2)


@pytest.mark.slow  # the whole suite
@pytest.mark.timeout(300)
def test_a_foreign_runner_passes_but_for_what_it_does_not_keep(tmp_path: Path) -> None:
    known = tmp_path / "known.txt"
    known.write_text("AOX-251 # no contracts\n", encoding="utf-8")
    command = [*REFERENCE, *PLAIN, "{timeout_seconds}", "{idle_seconds}", "{config}", "{profile}"]

    attach = ("--attach", "{file}:{media_type}")
    told = invoke("--known-failing", str(known), *attach, "--jobs", "8", "--quiet", "--", *command)

    assert told.exit_code == 0, told.output


@pytest.mark.slow  # the whole suite
@pytest.mark.timeout(300)
def test_the_runner_in_node_passes_and_is_short() -> None:
    skip_without("node", "the example of a runner")
    given = (
        *("--executor", "{executor}", "--blueprint", "{blueprint}", "--prompt", "{prompt}"),
        *("--project-dir", "{project_dir}", "--config", "{config}"),
        *("--timeout", "{timeout_seconds}", "--idle", "{idle_seconds}"),
    )

    told = invoke("--jobs", "8", "--quiet", "--", str(NODE), *given)

    assert told.exit_code == 0, told.output
    assert len(NODE.read_text(encoding="utf-8").splitlines()) <= NODE_LINES


@pytest.mark.parametrize(
    ("command", "vector", "reason"),
    [
        pytest.param(PLAIN, "runner-time-is-up", "{timeout_seconds}", id="time"),
        pytest.param(PLAIN, "runner-progress", "{idle_seconds}", id="progress"),
        pytest.param(("{executor}",), "runner-asked-again", "{blueprint}", id="agent"),
        pytest.param(PLAIN, "runner-refuses-a-configuration", "{config}", id="configuration"),
    ],
)
def test_what_a_command_cannot_be_given_is_untestable(command: Sequence[str], vector: str, reason: str) -> None:
    result = run_runner_suite(RunnerPlan(("true", *command), named(vector)))

    assert (result.vectors[0].verdict, reason in result.vectors[0].reason) == (Verdict.UNTESTABLE, True)
    assert result.exit_code == 1


def test_a_resume_is_never_exercised_where_no_command_resumes() -> None:
    result = run_runner_suite(RunnerPlan(("true", *PLAIN), named("runner-refuses-a-resume")))

    assert result.vectors[0].verdict is Verdict.NEVER_EXERCISED


def test_files_are_never_exercised_where_no_words_attach_one() -> None:
    result = run_runner_suite(RunnerPlan(("true", *PLAIN), named("runner-attaches-files")))

    assert result.vectors[0].verdict is Verdict.NEVER_EXERCISED
    assert "--attach" in result.vectors[0].reason


def test_the_words_that_attach_a_file_stand_behind_the_command_once_for_each() -> None:
    (vector,) = named("runner-attaches-files")

    assert attaching(("r", "{prompt}"), ("--add", "{media_type}={file}"), vector) == (
        *("r", "{prompt}", "--add", "text/plain={project_dir}/note.txt"),
        *("--add", "image/png={project_dir}/picture.png"),
    )


def test_a_command_that_prints_nothing_fails_and_its_last_words_are_shown() -> None:
    command = ("sh", "-c", "echo out of order >&2; exit 4", "{executor}")

    result = run_runner_suite(RunnerPlan(command, named("runner-own-group")))

    assert [(found.requirement, found.found) for found in result.vectors[0].findings] == [
        ("AOX-240", "no event came; the command exited with 4; stderr ends with: out of order"),
        ("AOX-230", "it was not started for a run"),
    ]


def test_a_command_that_cannot_be_started_says_nothing_about_a_runner() -> None:
    result = run_runner_suite(RunnerPlan(("/no/such/runner", "{executor}"), named("runner-own-group")))

    assert (result.vectors[0].verdict, result.exit_code) == (Verdict.HARNESS_ERROR, 3)


def test_the_vectors_are_listed_with_what_they_are_about() -> None:
    told = invoke("--list", "--only", "AOX-236")

    assert told.exit_code == 0
    assert told.output.split()[:3] == ["runner-multi-turn", "AOX-236", "AOX-247"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--only", "runner-none"], "neither a requirement nor a vector", id="unknown id"),
        pytest.param(["--only", "AOX-010"], "no runner vector tests AOX-010", id="not of runners"),
        pytest.param(["--", "my-runner", "{prompt}"], "add {executor}", id="no executor"),
        pytest.param(["--resume", "'", "--", "my-runner", "{executor}"], "cannot be split", id="resume"),
        pytest.param(["--attach", "'", "--", "my-runner", "{executor}"], "cannot be split", id="attach"),
        pytest.param(["--report", "pdf=x"], "is not KIND=FILE", id="report"),
    ],
)
def test_a_bad_command_line_says_what_to_do(arguments: list[str], said: str) -> None:
    told = invoke(*arguments)

    assert (told.exit_code, said in told.output) == (2, True), told.output
