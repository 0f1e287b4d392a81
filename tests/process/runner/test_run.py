"""Runs of real processes. What the runner relays is a whole run, whatever the executor does, and nothing is left."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from ao_protocol.events import Failure, Result
from ao_runner.processes.containment import probe
from ao_runner.profiles import Profile
from ao_runner.runs.run_request import GracePeriods, Simulation
from tests.process.runner.performing import IMPATIENT, MINIATURES, PATIENT, perform

STUBBORN = {"hangs_after_terminal", "closes_stdout", "goes_silent"}
"""Miniatures that the runner has to end, so that waiting for them would be in vain."""

OF_THE_RUN = {"LC_CTYPE", "TMPDIR", "AO_REJECTED_ANSWERS"}
"""Variables that Python or the runner sets for each run, not taken from the runner's environment."""


@pytest.mark.requirement("AOX-235")
def test_a_good_run_is_relayed_word_for_word(tmp_path: Path) -> None:
    performed = perform("answers_at_once", tmp_path)

    assert performed.types == ["run_started", "session_bound", "result"]
    assert performed.result.result_text == "hello"
    assert performed.record.problem_count == 0
    assert performed.notes == []


@pytest.mark.requirement("AOX-231")
def test_a_run_whose_profile_sets_the_workers_token_under_another_name_is_refused(tmp_path: Path) -> None:
    profile = Profile.model_validate(
        {"name": "p", "executor": "x", "environment": {"set": {"OTHER": "Bearer s3cret-token"}}}
    )
    environ = {**os.environ, "AO_COORDINATOR_TOKEN": "s3cret-token"}
    performed = perform("answers_at_once", tmp_path, profile=profile, environ=environ)

    assert "OTHER holds the value of AO_COORDINATOR_TOKEN" in performed.failure.error.message
    assert "spawned" not in performed.record.seconds


def test_the_record_says_how_the_run_went(tmp_path: Path) -> None:
    record = perform("answers_at_once", tmp_path).record

    assert record.argv == (str(MINIATURES / "answers_at_once.py"),)
    assert list(record.seconds) == ["described", "spawned", "first_event", "terminal", "reaped"]
    assert list(record.seconds.values()) == sorted(record.seconds.values())
    assert record.exit_code == 0
    assert record.containment == probe(os.environ).kind


@pytest.mark.requirement("AOX-030")
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param(2**53, "$.parameters.n: 9007199254740992 is outside", id="an integer that loses digits"),
        pytest.param(float("inf"), "$.parameters.n: Infinity is not a JSON number", id="infinity"),
    ],
)
def test_a_run_that_no_line_can_carry_is_refused_without_a_process(tmp_path: Path, value: object, problem: str) -> None:
    performed = perform("answers_at_once", tmp_path, parameters={"prompt": "hello", "n": value})

    assert performed.failure.error.type == "invalid_invocation"
    assert problem in performed.failure.error.message
    assert "spawned" not in performed.record.seconds


def test_half_a_character_in_a_prompt_does_not_keep_it_from_being_sent(tmp_path: Path) -> None:
    performed = perform("answers_at_once", tmp_path, parameters={"prompt": "a\udcff"})

    assert performed.result.result_text == "a\ufffd"


GOOD_RUNS = {
    "prints_garbage": 4,
    "line_too_long": 1,
    "skips_a_seq": 1,
    "names_another_run": 1,
    "begins_with_a_message": 1,
    "forgets_the_last_line_end": 1,
    "two_terminals": 1,
    "speaks_after_its_end": 1,
    "exits_wrong_code": 1,
    "hangs_after_terminal": 1,
    "floods_stderr": 0,
    "leaves_a_grandchild_holding_stdout": 0,
    "reads_only_the_beginning": 0,
}


@pytest.mark.requirement("AOX-247")
@pytest.mark.requirement("AOX-240")
@pytest.mark.requirement("AOX-241")
@pytest.mark.requirement("AOX-242")
@pytest.mark.parametrize("miniature", GOOD_RUNS)
def test_a_result_counts_and_faults_beside_it_are_told(miniature: str, tmp_path: Path) -> None:
    performed = perform(miniature, tmp_path, grace_periods=IMPATIENT if miniature in STUBBORN else PATIENT)

    assert isinstance(performed.terminal, Result)
    assert performed.record.problem_count == GOOD_RUNS[miniature]
    assert performed.types.count("log") + len(performed.notes) == GOOD_RUNS[miniature]


BAD_RUNS: dict[str, tuple[str, bool, str]] = {
    "ends_without_terminal": ("missing_terminal", False, "exited with code 0 without a terminal event"),
    "dies_of_an_exception": ("missing_terminal", False, "exited with code 1 without a terminal event"),
    "closes_stdout": ("missing_terminal", False, "closed its stdout without a terminal event"),
    "leaves_a_tool_open": ("missing_terminal", False, "exited with code 0"),
    "crashes_by_signal": ("executor_crashed", True, "was ended by SIGSEGV before its terminal event"),
    "stops_mid_line": ("protocol_violation", False, "the last line has no line end"),
    "prints_only_garbage": ("protocol_violation", False, "not JSON"),
    "describes_nothing": ("protocol_violation", False, "does not print a valid description"),
    "goes_silent": ("executor_stalled", True, "stopped sending heartbeats"),
}


@pytest.mark.requirement("AOX-240")
@pytest.mark.requirement("AOX-243")
@pytest.mark.parametrize("miniature", BAD_RUNS)
def test_a_run_without_a_terminal_event_gets_one_from_the_runner(miniature: str, tmp_path: Path) -> None:
    grace_periods = IMPATIENT if miniature in STUBBORN else PATIENT

    performed = perform(miniature, tmp_path, heartbeat_seconds=0.1, grace_periods=grace_periods)

    error_type, retryable, words = BAD_RUNS[miniature]
    assert performed.failure.status == "failed"
    assert (performed.failure.error.type, performed.failure.error.retryable) == (error_type, retryable)
    assert performed.failure.error.origin == "executor"
    assert words in performed.failure.error.message


def test_the_last_words_on_stderr_stand_in_the_error(tmp_path: Path) -> None:
    terminal = perform("dies_of_an_exception", tmp_path).terminal

    assert isinstance(terminal, Failure)
    assert "the database is on fire" in str((terminal.error.details or {})["stderr_tail"])


@pytest.mark.requirement("AOX-233")
@pytest.mark.requirement("AOX-199")
@pytest.mark.requirement("AOX-234")
def test_of_a_flood_on_stderr_the_end_is_kept(tmp_path: Path) -> None:
    record = perform("floods_stderr", tmp_path).record

    assert record.stderr_tail.endswith("the last words\n")
    assert len(record.stderr_tail) <= 64 * 1024
    assert record.stderr_tail[6] == " "


def test_an_open_tool_call_is_closed_before_the_end(tmp_path: Path) -> None:
    assert perform("leaves_a_tool_open", tmp_path).types == ["run_started", "tool_started", "tool_finished", "failure"]


def test_an_invocation_of_many_megabytes_does_not_block_the_runner(tmp_path: Path) -> None:
    performed = perform("reads_only_the_beginning", tmp_path, parameters={"prompt": "x" * (7 * 1024 * 1024)})

    assert isinstance(performed.terminal, Result)


def test_an_invocation_of_many_megabytes_arrives_whole(tmp_path: Path) -> None:
    prompt = "ü" * (100 * 1024)

    terminal = perform("answers_at_once", tmp_path, parameters={"prompt": prompt}).terminal

    assert isinstance(terminal, Result)
    assert terminal.result_text == prompt


STOPPED: dict[str, tuple[str, str, list[str], GracePeriods]] = {
    "leaves_when_asked": ("cancelled", "cancelled", ["ask", "close_stdin"], PATIENT),
    "works_for_ever": ("cancelled", "cancelled", ["ask", "close_stdin"], PATIENT),
    "leaves_at_the_end_of_stdin": ("cancelled", "cancelled", ["ask", "close_stdin"], replace(PATIENT, ask_seconds=0.3)),
    "ignores_cancel": (
        "cancelled",
        "cancelled",
        ["ask", "close_stdin", "terminate"],
        replace(IMPATIENT, terminate_seconds=30),
    ),
    "ignores_sigterm": ("failed", "cancel_timeout", ["ask", "close_stdin", "terminate", "kill"], IMPATIENT),
}


@pytest.mark.parametrize("miniature", STOPPED)
def test_a_run_that_is_cancelled_ends_however_hard_it_is(miniature: str, tmp_path: Path) -> None:
    status, error_type, actions, grace_periods = STOPPED[miniature]

    performed = perform(miniature, tmp_path, stop_on="run_started", grace_periods=grace_periods)

    assert (performed.failure.status, performed.failure.error.type) == (status, error_type)
    assert list(performed.record.stop_actions) == actions


def test_the_second_wish_to_stop_kills(tmp_path: Path) -> None:
    performed = perform("ignores_sigterm", tmp_path, stop_on="run_started", stops_wanted=2)

    assert performed.record.stop_actions == ("ask", "kill")
    assert performed.failure.status == "cancelled"


@pytest.mark.parametrize(("miniature", "grace_periods"), [("works_for_ever", PATIENT), ("ignores_sigterm", IMPATIENT)])
def test_a_run_that_takes_too_long_fails_with_deadline_exceeded(
    miniature: str, grace_periods: GracePeriods, tmp_path: Path
) -> None:
    performed = perform(miniature, tmp_path, timeout_seconds=0.1, grace_periods=grace_periods)

    assert (performed.failure.status, performed.failure.error.type) == ("failed", "deadline_exceeded")
    assert "its limit of 0.1 s" in performed.failure.error.message


def test_an_executor_that_never_starts_is_given_up(tmp_path: Path) -> None:
    performed = perform("never_starts", tmp_path, start_seconds=0.3)

    assert performed.failure.error.type == "executor_start_timeout"
    assert performed.types == ["run_started", "failure"]


@pytest.mark.requirement("AOX-250")
def test_an_executor_of_another_major_version_is_not_started(tmp_path: Path) -> None:
    performed = perform("speaks_an_older_version", tmp_path)

    assert performed.failure.error.type == "unsupported_schema_version"
    assert performed.failure.error.details == {"requested": "3.0", "supported": ["2.1"]}
    assert performed.failure.error.side_effects == "none"
    assert "spawned" not in performed.record.seconds


@pytest.mark.requirement("AOX-245")
def test_a_run_that_may_have_had_side_effects_is_not_tried_again(tmp_path: Path) -> None:
    performed = perform("counts_its_starts", tmp_path)

    assert performed.failure.error.retryable
    assert (tmp_path / "project" / "starts").read_text() == "started\n"


@pytest.mark.requirement("AOX-236")
def test_an_executor_that_declares_no_turns_is_sent_nothing_after_its_run(tmp_path: Path) -> None:
    performed = perform("tells_what_it_is_sent", tmp_path)

    assert isinstance(performed.terminal, Result)
    assert performed.record.stderr_tail.strip() == "sent afterwards: ''"


@pytest.mark.parametrize(("how", "error_type"), [("request", "cancelled"), ("fence", "attempt_lost")])
def test_a_wish_to_stop_before_the_start_is_obeyed(
    how: Literal["request", "fence"], error_type: str, tmp_path: Path
) -> None:
    performed = perform("works_for_ever", tmp_path, stop_at_once=how)

    assert (performed.failure.error.type, performed.failure.error.side_effects) == (error_type, "none")
    assert "spawned" not in performed.record.seconds


def test_a_file_that_cannot_be_started_is_no_executor(tmp_path: Path) -> None:
    performed = perform("there_is_no_such_miniature", tmp_path)

    assert (performed.failure.error.type, performed.failure.error.side_effects) == ("executor_not_found", "none")


def test_a_descendant_outside_the_group_does_not_hold_up_the_run(tmp_path: Path) -> None:
    performed = perform("leaves_a_grandchild_outside_its_group", tmp_path)

    assert isinstance(performed.terminal, Result)
    assert performed.record.seconds["reaped"] < performed.record.seconds["terminal"] + 5


@pytest.mark.requirement("AOX-231")
def test_only_listed_variables_reach_the_executor(tmp_path: Path) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": "/home/me",
        "LC_ALL": "C.UTF-8",
        "MINIATURE_KEY": "key-of-the-miniature",
        "MINIATURE_URL": "http://here",
        "OTHER_KEY": "key-of-another",
    }

    terminal = perform("shows_its_environment", tmp_path, environ=environ).terminal

    shown = _shown(terminal)
    assert shown["environment"] == {
        "PATH": os.environ["PATH"],
        "HOME": "/home/me",
        "LANG": "C.UTF-8",
        "MINIATURE_KEY": "***",
        "MINIATURE_URL": "http://here",
    } | {name: value for name, value in shown["environment"].items() if name in OF_THE_RUN}


@pytest.mark.requirement("AOX-230")
def test_an_executor_leads_its_own_group_in_the_project_folder(tmp_path: Path) -> None:
    shown = _shown(perform("shows_its_environment", tmp_path).terminal)

    assert shown["cwd"] == str(tmp_path / "project")
    assert shown["leads_group"] is True
    assert shown["session"] != os.getsid(0)


def test_with_a_simulation_nothing_of_the_persons_own_goes_in(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": "/home/me", "MINIATURE_KEY": "the-real-key"}
    simulation = Simulation("http://127.0.0.1:1", tmp_path / "stand-in")

    shown = _shown(perform("shows_its_environment", tmp_path, environ=environ, simulation=simulation).terminal)

    assert shown["environment"]["HOME"] == str(tmp_path / "stand-in")
    assert shown["environment"]["MINIATURE_URL"] == "http://127.0.0.1:1"
    assert shown["environment"]["MINIATURE_KEY"] == "sk-ant-model-sim"


def test_a_secret_that_the_executor_tells_is_kept_out_of_log_error_and_record(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "MINIATURE_KEY": "sk-very-secret-value"}

    performed = perform("tells_its_secret", tmp_path, environ=environ)

    assert "sk-very-secret-value" not in repr(performed)
    assert "401: bad key ***" in performed.record.stderr_tail


@pytest.mark.parametrize(("value", "noted"), [("1234567", 1), ("12345678", 0), ("", 0)])
def test_a_secret_that_is_too_short_to_be_taken_out_is_named(value: str, noted: int, tmp_path: Path) -> None:
    performed = perform("answers_at_once", tmp_path, environ={"PATH": os.environ["PATH"], "MINIATURE_KEY": value})

    sentence = "secret MINIATURE_KEY has fewer than 8 characters: it is not removed from events"
    assert performed.notes == [sentence] * noted


@pytest.mark.requirement("AOX-232")
def test_the_invocation_says_all_that_the_executor_needs(tmp_path: Path) -> None:
    performed = perform("shows_its_invocation", tmp_path, timeout_seconds=60)

    invocation = _shown(performed.terminal)
    assert invocation.pop("run_id").startswith("run_")
    assert invocation.pop("session_id").startswith("ses_")
    assert invocation == {
        "schema_version": "3.0",
        "mode": "start",
        "parameters": {"prompt": "hello"},
        "prompt": "hello",
        "agent_name": "agent",
        "agent_blueprint": {"name": "agent"},
        "project_dir": str(tmp_path / "project"),
        "executor_config": {},
        "limits": {
            "timeout_seconds": 60,
            "max_event_bytes": 1024 * 1024,
            "heartbeat_interval_seconds": 10,
            "cancel_grace_seconds": 30,
        },
        "control": {"stdin": "open"},
        "metadata": {},
    }


def _shown(terminal: object) -> Any:
    assert isinstance(terminal, Result)
    return json.loads(str(terminal.result_text))
