"""Runs that come through a pipe, and events that leave through one."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.faults.worker.working import MINIATURES, NOTING, SECONDS, Home, Working, until
from tests.process.lifeline.leftovers import processes_in

USUAL = ("--coordinator", "stdout", "--profile", str(MINIATURES / f"{NOTING}.py"))


@contextmanager
def worker_of(home: Home, *lines: str, options: tuple[str, ...] = ()) -> Iterator[Working]:
    """Start a worker that has read these lines and nothing more."""
    with home.worker(*USUAL, *options, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.process.stdin is not None
        with worker.process.stdin as runs:
            runs.write("".join(f"{line}\n" for line in lines).encode())
        yield worker


def run_line(home: Home, run_id: str, prompt: str) -> str:
    return json.dumps(
        {"blueprint": {"name": "a"}, "prompt": prompt, "run_id": run_id, "project_dir": str(home.project)}
    )


def read_to_the_end(worker: Working) -> list[dict[str, Any]]:
    assert worker.process.stdout is not None
    return [json.loads(line) for line in worker.process.stdout]


def seqs(events: list[dict[str, Any]], run_id: str) -> list[int]:
    return [event["seq"] for event in events if event["run_id"] == run_id]


def test_a_reader_that_is_slow_gets_everything(home: Home) -> None:
    with worker_of(home, run_line(home, "run_1", "3000 0"), run_line(home, "run_2", "3000 0")) as worker:
        worker.heard("run ended", 2)  # nobody has read anything yet
        events = read_to_the_end(worker)
        assert worker.left() == 0
    assert seqs(events, "run_1") == seqs(events, "run_2") == list(range(1, 3004))


def test_a_reader_that_leaves_ends_the_worker_and_the_next_one_gets_the_rest(home: Home) -> None:
    lines = [run_line(home, f"run_{number}", "100000 0") for number in range(2)]
    with worker_of(home, *lines) as worker:
        assert worker.process.stdout is not None
        worker.process.stdout.readline()
        until(lambda: min(home.flushed(run_id) for run_id in ("run_0", "run_1")) > 50, "nothing was flushed")
        worker.process.stdout.close()
        assert worker.left() == 2
    assert worker.other == ["Error: coordinator stdout cannot be used: its reader has gone; start again with a reader"]
    assert processes_in(home.project) == []

    with worker_of(home) as heir:
        rest = read_to_the_end(heir)
        assert heir.left() == 0

    for run_id in ("run_0", "run_1"):
        got = seqs(rest, run_id)
        assert got == list(range(got[0], got[0] + len(got)))
    assert [event["error"]["type"] for event in rest if "error" in event] == ["attempt_lost"] * 2


def test_the_end_of_stdin_lets_runs_end(home: Home) -> None:
    with worker_of(home, *[run_line(home, f"run_{number}", "20 0.02") for number in range(6)]) as worker:
        events = read_to_the_end(worker)
        assert worker.left() == 0
    assert sum(event["event_type"] == "result" for event in events) == 6


def test_lines_that_are_no_runs_are_told_and_skipped(home: Home) -> None:
    bad = [
        "{",
        "[1]",
        '{"prompt": 3}',
        '{"cancel": 1}',
        '{"cancel": "nobody"}',
        "\x00\xff",
        '{"blueprint": "gone.yaml"}',
    ]
    with worker_of(home, *bad, run_line(home, "run_1", "1 0"), run_line(home, "run_1", "1 0")) as worker:
        events = read_to_the_end(worker)
        assert worker.left() == 64
    assert worker.said("the line is skipped") == 7
    failures = [event for event in events if event["event_type"] == "failure"]
    assert [event["error"]["details"]["line"] for event in failures] == [1, 2, 3, 4, 6, 7, 9]
    assert {event["run_id"] for event in failures} == {None}
    assert seqs(events, "run_1") == [1, 2, 3, 4]


def test_pipes_and_devices_in_place_of_files_hold_up_no_run(home: Home) -> None:
    pipe, device = home.project / "pipe.yaml", home.project / "device.yaml"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    odd = [
        *({"blueprint": str(path), "prompt": "1 0", "run_id": "no_run"} for path in (pipe, device)),
        *({**json.loads(run_line(home, path.stem, "1 0")), "profile": str(path)} for path in (pipe, device)),
    ]
    with worker_of(home, *map(json.dumps, odd), run_line(home, "run_1", "1 0")) as worker:
        worker.heard("run ended", 3)
        events = read_to_the_end(worker)
        assert worker.left() == 64
    skipped = [entry["event"] for entry in worker.log if "the line is skipped" in entry["event"]]
    failures = [event for event in events if event["event_type"] == "failure"]
    refused = {event["run_id"]: event["error"]["message"] for event in failures}
    assert sum("line" in (event["error"].get("details") or {}) for event in failures) == 2
    found = {
        pipe: f"{pipe}: found a pipe, expected a regular file",
        device: f"{device}: found a device, expected a regular file",
    }
    assert skipped == [
        f"stdin, line {number}: $.blueprint: {found[path]}; the line is skipped" for number, path in enumerate(found, 1)
    ]
    assert {run_id: found[path] in refused[run_id] for run_id, path in (("pipe", pipe), ("device", device))} == {
        "pipe": True,
        "device": True,
    }
    assert seqs(events, "run_1") == [1, 2, 3, 4]


def test_a_run_is_cancelled_by_a_line(home: Home) -> None:
    with home.worker(*USUAL, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        runs, events = worker.process.stdin, worker.process.stdout
        assert runs is not None
        assert events is not None
        os.write(runs.fileno(), run_line(home, "run_1", "100000 0.01").encode() + b"\n")
        assert json.loads(events.readline())["event_type"] == "run_started"
        os.write(runs.fileno(), b'{"cancel": "run_1"}\n')
        runs.close()
        last = read_to_the_end(worker)[-1]
        assert worker.process.wait(SECONDS) == 0
    assert (last["event_type"], last["status"]) == ("failure", "cancelled")


def test_a_run_that_waits_is_cancelled_by_a_line_and_never_performed(home: Home) -> None:
    lines = [run_line(home, "run_1", "200 0.01"), run_line(home, "run_2", "1 0"), '{"cancel": "run_2"}']
    with worker_of(home, *lines, options=("--concurrency", "1")) as worker:
        events = read_to_the_end(worker)
        assert worker.left() == 0
    ends = {event["run_id"]: event for event in events if event["event_type"] in {"result", "failure"}}
    assert ends["run_1"]["event_type"] == "result"
    assert ends["run_2"]["error"]["message"] == "cancelled before the executor was started"
    assert home.flushed("run_2") == 0
