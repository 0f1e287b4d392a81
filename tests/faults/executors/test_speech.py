"""Executors that write what they should not. What leaves the runner is a whole run, and no secret is in it."""

import json
import os
from pathlib import Path

import pytest

from ao_protocol.events import Result
from ao_protocol.redaction import SHORTEST_SECRET
from tests.runner.performing import Performed, check_whole, perform

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
