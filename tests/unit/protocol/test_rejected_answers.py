"""The file of rejected answers: whatever it holds or is, the runner reads answers or nothing, and deletes it."""

import json
import os
from pathlib import Path

import pytest

from ao_protocol.rejected_answers import (
    MAX_CHARACTERS,
    MAX_FILE_BYTES,
    VARIABLE,
    RejectedAnswer,
    leave_answer,
    take_answers,
)

ANSWER = RejectedAnswer(1, 'with "quotes",\nlines and \u2028 \U0001f600')
LINE = json.dumps({"attempt": 2, "text": "good"})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "answers.jsonl"


def leave(file: Path, *answers: RejectedAnswer) -> None:
    for answer in answers:
        leave_answer({VARIABLE: str(file)}, answer)


def test_what_was_left_is_taken_once(file: Path) -> None:
    other = RejectedAnswer.of(2, "x" * (MAX_CHARACTERS + 1))
    leave(file, ANSWER, other)

    assert file.stat().st_mode & 0o777 == 0o600
    assert take_answers(file) == [ANSWER, other]
    assert other.is_cut
    assert take_answers(file) == []


def test_nothing_is_left_where_the_runner_wants_none(tmp_path: Path) -> None:
    leave_answer({}, ANSWER)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        "",
        "no json",
        "[]",
        "{}",
        '{"attempt": 1}',
        '{"attempt": true, "text": "x"}',
        '{"attempt": 0, "text": "x"}',
        '{"attempt": "1", "text": "x"}',
        '{"attempt": 1, "text": ["x"]}',
        "[" * 100_000,
        '{"attempt": 1e999, "text": "x"}',
        "\x00\udcff",
    ],
)
def test_a_line_that_is_no_answer_is_left_out(file: Path, line: str) -> None:
    file.write_text(f"{LINE}\n{line}\n{LINE}\n{LINE[:-1]}", encoding="utf-8", errors="surrogateescape")

    assert take_answers(file) == [RejectedAnswer(2, "good")] * 2


def test_the_file_is_bounded(file: Path) -> None:
    leave(file, *[RejectedAnswer.of(n, "x" * MAX_CHARACTERS) for n in range(1, 100)])

    assert file.stat().st_size < MAX_FILE_BYTES + 2 * MAX_CHARACTERS
    assert 10 < len(take_answers(file)) < 20


def test_a_link_a_pipe_and_a_folder_are_not_read(file: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{LINE}\n")
    file.symlink_to(secret)
    leave(file, ANSWER)
    assert take_answers(file) == []
    assert secret.read_text() == f"{LINE}\n"
    os.mkfifo(file)
    assert take_answers(file) == []
    file.mkdir()
    leave(file, ANSWER)
    assert take_answers(file) == []
