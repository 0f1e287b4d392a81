"""Whatever one run, one row, one line or one answer holds, it ends that run at most, and no worker."""

import asyncio
import json
import os
import random
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from ao_runner.coordinators.http.session_clocks import SessionClocks
from ao_runner.worker.event_summary import Synopsis
from tests.faults.worker.serving import EXECUTOR, Scene, served
from tests.faults.worker.working import MINIATURES, Home
from tests.foreign_coordinator.faults import Fault

ODD: Final[list[Any]] = [
    "", "\x00", "\ud800", "x" * 100_000, "../../x", "?a=b#c", "9999-12-31T23:59:59.999999Z", None, True, -1, 0, 2**63,
    1e308, float("inf"), float("nan"), [], {}, [[[]]], {"a": {"b": [1, "2"]}}, ["\udfff"], {"run_id": "run_1"},
]  # fmt: skip
SEEDS: Final = range(int(os.environ.get("POISON_SEEDS", "30")))


def test_a_time_at_the_end_of_the_calendar_leaves_room_for_the_next() -> None:
    clocks = SessionClocks()
    odd = ["9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "tomorrow"]
    stamps = [clocks.stamp("ses_1", timestamp) for timestamp in odd * 3]
    assert stamps == sorted(set(stamps))


@pytest.mark.parametrize("note", ["{", "[]", "null", '{"session_id": 1}', '{"open_tools": []}', "\x00"])
def test_a_damaged_note_of_a_run_is_the_beginning_of_one(note: str) -> None:
    assert Synopsis.from_note(note) == Synopsis()


def test_odd_events_of_executors_end_no_worker(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.executor = str(MINIATURES / "speaks_at_random.py")
        async with scene.worker() as (worker, task):
            for seed in SEEDS:
                scene.enqueue(f"run_{seed}", str(seed))
            await scene.until(
                lambda: all(map(scene.ends, (f"run_{s}" for s in SEEDS))) or task.done(), "they do not end"
            )
            await scene.leave(worker, task)
            assert worker.outbox.open_keys() == []

    play(tmp_path, story)


def test_odd_runs_of_a_coordinator_end_no_worker(tmp_path: Path) -> None:
    chance = random.Random(20)
    fields = [
        "type",
        "parameters",
        "agent_name",
        "attempt",
        "created_at",
        "project_dir",
        "scope",
        "resolved_agent_blueprint",
    ]

    async def story(scene: Scene) -> None:
        async with scene.worker() as (worker, task):
            for seed in SEEDS:
                odd = {name: chance.choice(ODD) for name in chance.sample(fields, 2)}
                scene.server.state.enqueue(f"run_{seed}", f"ses_{seed}", **odd)
            scene.server.state.enqueue("r" * 100_000, "ses_long")
            scene.server.state.enqueue("run_\ud800", "ses_half")
            scene.enqueue("run_good", "10 0")
            await scene.until(lambda: scene.ends("run_good") or task.done(), "the good run does not end")
            await scene.leave(worker, task)
            assert scene.ends("run_good") == ["completed"]

    play(tmp_path, story)


def test_odd_answers_of_a_coordinator_end_no_worker(tmp_path: Path) -> None:
    chance = random.Random(21)
    names = [
        "runner_id", "poll_endpoint", "poll_timeout_seconds", "heartbeat_interval_seconds", "ao_protocol", "run",
        "stop_sessions", "sync_scripts", "deregistered", "session", "runs", "events", "detail", "status",
    ]  # fmt: skip

    async def story(scene: Scene) -> None:
        async with scene.worker() as (worker, task):
            await scene.until(lambda: scene.server.state.runners, "it does not register")
            for seed in SEEDS:
                body = {name: chance.choice(ODD) for name in chance.sample(names, 6)} | {"deregistered": False}
                answer = json.dumps(chance.choice([body, body, chance.choice(ODD)])).encode()
                scene.server.misbehave(Fault("answer", chance.choice([200, 200, 503]), answer))
                scene.enqueue(f"run_{seed}", "1 0")
            met = len(scene.server.requests) + len(SEEDS)
            await scene.until(lambda: len(scene.server.requests) > met or task.done(), "it asks no more")
            scene.enqueue("run_good", "10 0")
            await scene.until(lambda: scene.ends("run_good") or task.done(), "the good run does not end")
            await scene.leave(worker, task)
            assert scene.ends("run_good") == ["completed"]

    play(tmp_path, story)


def play(folder: Path, story: Any) -> None:
    async def everything() -> None:
        async with served(folder) as scene:
            await story(scene)

    asyncio.run(everything())


COLUMNS: Final = ["parameters", "metadata", "contract", "profile", "timeout_seconds", "queued_at", "mode", "session_id"]
VALUES: Final[list[Any]] = [
    "{",
    "[]",
    "NaN",
    "",
    b"\xff\xfe",
    -1,
    1e308,
    None,
    "\x00",
    '{"a": ' * 200,
    '{"prompt": 1e999}',
]


def test_damaged_rows_of_the_queue_end_no_worker(tmp_path: Path) -> None:
    home = Home.below(tmp_path)
    chance = random.Random(22)
    run_ids = home.submit(len(SEEDS))
    with sqlite3.connect(home.folder / "ao.sqlite3") as connection:
        for run_id in run_ids:
            column, value = chance.choice(COLUMNS), chance.choice(VALUES)
            connection.execute("PRAGMA foreign_keys = OFF")
            with suppress(sqlite3.DatabaseError):  # the store itself refuses some
                connection.execute(f"UPDATE runs SET {column} = ? WHERE run_id = ?", (value, run_id))  # noqa: S608
        for table, column in (("sessions", "blueprint"), ("sessions", "executor_config")):
            connection.execute(f"UPDATE {table} SET {column} = '{{' WHERE rowid = 1")  # noqa: S608
    (good,) = home.submit(1, executor="answers_at_once")
    left = worker(home, "--until-idle")
    assert left.returncode == 0, left.stderr
    with home.store() as store:
        states = {state.run.run_id: state.run.status for state in store.queue.list_states()}
    assert states[good] == "completed"
    assert "queued" not in states.values()
    assert "running" not in states.values()


def test_odd_lines_on_stdin_end_no_worker(tmp_path: Path) -> None:
    home = Home.below(tmp_path)
    chance = random.Random(23)
    (home.project / "odd.yaml").write_text("name: !!bool maybe\n")
    good = {"blueprint": {"name": "a"}, "prompt": "10 0", "run_id": "good", "profile": EXECUTOR}
    names = ["blueprint", "parameters", "prompt", "run_id", "session_id", "executor_session_id", "profile",
             "project_dir",
             "output_schema", "output_schema_options", "timeout_seconds", "metadata", "cancel"]  # fmt: skip
    lines = [json.dumps({**good, "run_id": "yaml", "blueprint": "odd.yaml"})]
    for seed in SEEDS:
        odd = {name: chance.choice(ODD) for name in chance.sample(names, 2)}
        lines.append(json.dumps({**good, "run_id": f"run_{seed}", **odd}))
    lines += ["[]", "nope", "\x00", "{}", json.dumps(good)]
    left = worker(home, "--coordinator", "stdout", stdin="\n".join(lines))
    events = [json.loads(line) for line in left.stdout.splitlines()]
    assert [event["event_type"] for event in events if event["run_id"] == "good"][-1] == "result", left.stderr
    assert "Traceback" not in left.stderr


def worker(home: Home, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ao_runner", "worker", "--home", str(home.folder), *arguments],
        input=stdin, capture_output=True, text=True, timeout=100, check=False, cwd=home.project,
    )  # fmt: skip
