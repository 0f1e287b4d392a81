"""Whatever comes, and however much: the runner's memory is bounded, and nothing that counts is lost."""

from pathlib import Path

import pytest

from tests.faults.calling import run_measured

MUCH = 150_000_000
"""Bytes. A run that says hello takes 45 million; everything below is bounded well above that."""


def test_a_line_of_100_megabytes_is_left_out_and_told(tmp_path: Path) -> None:
    run = run_measured(tmp_path, "says_one_endless_line", {"prompt": "x", "megabytes": 100})

    assert run.called.exit_code == 0
    assert [event["event_type"] for event in run.events()] == ["run_started", "log", "result"]
    assert "a line is longer than 16777216 bytes" in run.events()[1]["message"]
    assert run.memory_bytes < MUCH


@pytest.mark.slow  # a gigabyte
def test_of_a_gigabyte_on_stderr_the_end_is_kept(tmp_path: Path) -> None:
    run = run_measured(tmp_path, "writes_stderr_without_end", {"prompt": "x", "megabytes": 1000})

    assert run.called.exit_code == 0
    assert [event["event_type"] for event in run.events()] == ["run_started", "result"]
    assert run.memory_bytes < MUCH


@pytest.mark.parametrize(
    "events",
    [pytest.param(30_000, id="thousands"), pytest.param(1_000_000, id="a million", marks=pytest.mark.slow)],
)
def test_of_a_flood_of_events_each_arrives_once(events: int, tmp_path: Path) -> None:
    run = run_measured(tmp_path, "floods_events", {"prompt": "x", "events": events})

    assert run.called.exit_code == 0
    assert [event["seq"] for event in run.events()] == list(range(1, events + 3))
    assert run.memory_bytes < MUCH
