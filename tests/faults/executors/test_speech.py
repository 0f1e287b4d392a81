"""Executors that write what they should not. What leaves the runner is a whole run, and no secret is in it."""

import json
import os
from pathlib import Path

import pytest

from ao_protocol.events import Failure, Result
from ao_protocol.redaction import SHORTEST_SECRET
from tests.process.runner.performing import IMPATIENT, Performed, check_whole, perform

SECRET = "sk-very-secret-value"


def test_lines_that_are_no_json_for_everybody_are_left_out(tmp_path: Path) -> None:
    performed = perform("says_what_is_no_json", tmp_path)

    assert isinstance(performed.terminal, Result)
    assert words_of(performed) == ["NaN", "-Infinity", "not UTF-8", "nested deeper", "nested deeper", "is outside"]
    assert len(max(performed.stored_lines, key=len)) < 1000
    check_whole(performed)


def words_of(performed: Performed) -> list[str]:
    """Return which of the expected words stand in each problem."""
    words = ["NaN", "-Infinity", "not UTF-8", "nested deeper", "is outside"]
    return [next(word for word in words if word in problem) for problem in performed.record.problems]


def test_an_event_that_comes_twice_is_told_and_the_count_stays_whole(tmp_path: Path) -> None:
    performed = perform("repeats_a_seq", tmp_path)

    assert isinstance(performed.terminal, Result)
    assert performed.record.problems == ("seq is 2, expected 3", "seq is 1, expected 3", "seq is 3, expected 2")
    check_whole(performed)


@pytest.mark.requirement("AOX-263")
def test_a_secret_in_pieces_is_nowhere(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "MINIATURE_KEY": SECRET}

    performed = perform("tells_its_secret_in_pieces", tmp_path, environ=environ)

    assert isinstance(performed.terminal, Result)
    assert performed.terminal.result_text == "done with ***"
    assert performed.record.stderr_tail == "the key is ***, cut into pieces\n"
    assert SECRET not in repr(performed)
    assert deltas_of(performed) == f"it is {SECRET[: SHORTEST_SECRET - 1]}***, you see"
    check_whole(performed)


def deltas_of(performed: Performed) -> str:
    documents = [json.loads(line) for line in performed.stored_lines]
    deltas = [document for document in documents if document["event_type"] == "message_delta"]
    return "".join(block["text"] for delta in deltas for block in delta["content"])


@pytest.mark.parametrize(
    "noise",
    ["\n", " \r\n", "hello\n", "endless", '{"event_type":"message"}\n', '"\\u0065vent_type"\n'],
    ids=["blank", "blanks", "words", "endless", "incomplete-events", "escapes"],
)
def test_an_executor_that_writes_noise_without_end_is_stopped(noise: str, tmp_path: Path) -> None:
    performed = perform("writes_noise_for_ever", tmp_path, parameters={"prompt": "x", "noise": noise})

    assert isinstance(performed.terminal, Failure)
    assert performed.terminal.error.type == "protocol_violation"
    assert "no events of the run" in performed.terminal.error.message
    assert performed.left_over == []
    check_whole(performed)


@pytest.mark.parametrize("noise", ["\n", "hello\n", '{"event_type":"message"}\n', "endless"])
def test_noise_is_no_sign_of_life(noise: str, tmp_path: Path) -> None:
    parameters = {"prompt": "x", "noise": noise, "pause_seconds": 0.01}

    performed = perform(
        "writes_noise_for_ever", tmp_path, parameters=parameters, heartbeat_seconds=0.1, grace_periods=IMPATIENT
    )

    assert isinstance(performed.terminal, Failure)
    assert performed.terminal.error.type == "executor_stalled"
    check_whole(performed)
