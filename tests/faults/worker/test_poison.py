"""Whatever one run, row, line, file or answer holds, it ends that run at most: the others complete."""

import asyncio
import json
import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from ao_protocol.documents import InvalidDescription, parse_description
from ao_runner.coordinators.http.event_delivery import SessionClocks
from ao_runner.outbox.outbox import Outbox
from ao_runner.run_events import RunKey
from ao_runner.runs.lost_runs import RunSummary
from tests.faults.worker.serving import Scene, served
from tests.faults.worker.working import MINIATURES, Home
from tests.foreign_coordinator.faults import Fault

GOOD: Final = "answers_at_once"
SAYS: Final = str(MINIATURES / "says_what_its_prompt_says.py")
END_OF_TIME: Final = "9999-12-31T23:59:59.999999Z"
SEED: Final = 35
ROUNDS: Final = int(os.environ.get("POISON_ROUNDS", "60"))
HOSTILE: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 1e308, -1e-320, 2**53, 2**63, 10**400, "", "x", "\ud800", "a\0b", "../..", "/", "?a=b#c",
    "e\u0301", "n" * 600, "n" * 100_000, END_OF_TIME, "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59",
    "2016-12-31T23:59:60Z", "0000-13-99T99:99:60Z", [], {}, [[]], {"": {}}, {"a": {"b": [1, "2"]}}, {"run_id": "run_1"},
    {"type": "text", "text": "\udfff"},
    {"name": "\ud800"}, [None, 1, "\ud800", {}], {"mcp_servers": {"a": 1}}, {"script": "../x"}, {"name": "${params.x}"},
    float("nan"), float("inf"),
)  # fmt: skip
DEEP: Final = "[" * 5000 + "]" * 5000
LONG_NUMBER: Final = "9" * 5000

COLUMNS: Final = {
    "runs": ("parameters", "metadata", "contract", "mode", "queued_at", "started_at", "timeout_seconds", "profile",
             "attempt", "session_id"),
    "sessions": ("blueprint", "executor_config", "project_dir", "executor_name", "created_at", "profile"),
}  # fmt: skip
VALUES: Final[list[Any]] = ["not json", "[]", "5", "null", "NaN", '{"a":', '{"a": ' * 200, '{"prompt": 1e999}', DEEP,
                     LONG_NUMBER, "", "n" * 100_000, "a\0b", "\0", END_OF_TIME, None]  # fmt: skip
NUMBERS: Final = {"timeout_seconds": (-1e308, -1, 1e308), "attempt": (2**62, 2**63 - 1, -1)}


def hostile_text(random: Random, fields: tuple[str, ...]) -> str:
    """Return a text in the place of a JSON object: cut, too deep, of another type, or with hostile fields."""
    chosen = {name: random.choice(HOSTILE) for name in random.sample(fields, random.randint(1, min(3, len(fields))))}
    text = json.dumps(chosen)
    kinds = [text] * 6 + [text[:-2], json.dumps(random.choice(HOSTILE)), f'{{"{fields[0]}": {DEEP}}}']
    return random.choice([*kinds, f'{{"{fields[0]}": {LONG_NUMBER}}}', "", "\x00\xff"])


def test_a_time_at_the_end_of_the_calendar_leaves_room_for_the_next() -> None:
    clocks = SessionClocks()
    odd = [END_OF_TIME, "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "tomorrow"]
    stamps = [clocks.stamp("ses_1", timestamp) for timestamp in odd * 3]
    assert stamps == sorted(set(stamps))


@pytest.mark.parametrize("note", ["{", "[]", "null", '{"session_id": 1}', '{"open_tools": []}', "\x00"])
def test_a_damaged_note_of_a_run_is_the_beginning_of_one(note: str) -> None:
    assert RunSummary.from_note(note) == RunSummary()


def play(folder: Path, act: Callable[[Scene], Any], executor: str = SAYS) -> None:
    async def whole() -> None:
        async with served(folder) as scene:
            scene.executor = executor
            await act(scene)

    asyncio.run(whole())


async def performs_one_more(scene: Scene, run_id: str = "run_good") -> None:
    """Let the worker that is there, or another one, perform a run as if nothing had been."""
    scene.enqueue(run_id, "[]")
    await scene.until_ended(run_id)
    assert scene.ends(run_id) == ["completed"], scene.log.values


@pytest.mark.parametrize("stamp", [END_OF_TIME, "0001-01-01T00:00:00Z", "2026-02-31T00:00:60Z"])
def test_events_of_any_time_are_delivered_in_their_order(tmp_path: Path, stamp: str) -> None:
    async def act(scene: Scene) -> None:
        said = [{"event_type": "message", "role": "assistant", "message_id": "m", "timestamp": stamp}] * 3
        texts = [{**one, "content": [{"type": "text", "text": str(number)}]} for number, one in enumerate(said)]
        scene.enqueue("run_1", json.dumps(texts))
        async with scene.worker() as (worker, task):
            await scene.until_ended("run_1")
            scene.server.state.enqueue("run_2", "ses_run_1", parameters={"prompt": "[]"})
            await scene.until_ended("run_2")
            await performs_one_more(scene)
            await scene.leave(worker, task)
        rows = [row for row in scene.server.state.answers("ses_run_1") if row["event_type"] == "message"]
        stamps = [row["timestamp"] for row in rows]
        assert [row["content"][0]["text"] for row in rows] == ["0", "1", "2"]
        assert stamps == sorted(set(stamps))
        assert {len(each) for each in stamps} == {len("2026-01-01T00:00:00.000000+00:00")}
        assert scene.ends("run_1") == scene.ends("run_2") == ["completed"]

    play(tmp_path, act)


@pytest.mark.parametrize("length", [600, 60_000, 100_000])
def test_a_run_with_an_endless_name_fails_and_the_next_is_performed(tmp_path: Path, length: int) -> None:
    async def act(scene: Scene) -> None:
        scene.enqueue("n" * length, "[]")
        scene.server.state.enqueue("run_long", "s" * length, parameters={"prompt": "[]"})
        scene.server.state.enqueue("run_\ud800", "ses_half", parameters={"prompt": "[]"})
        async with scene.worker() as (worker, task):
            await performs_one_more(scene)
            await scene.until_ended("run_long")
            await scene.leave(worker, task)
        assert scene.ends("run_long") == ["failed"]
        assert length > 10_000 or scene.ends("n" * length) == ["failed"]

    play(tmp_path, act)


@pytest.mark.parametrize("path", ["/\ud800", "/" + "x" * 100_000, "/a\r\nb", 7, None])
def test_a_poll_endpoint_that_is_none_is_told_and_left(tmp_path: Path, path: object) -> None:
    async def act(scene: Scene) -> None:
        scene.server.state.registration_extra = {"poll_endpoint": path}
        async with scene.worker() as (worker, task):
            await performs_one_more(scene)
            await scene.leave(worker, task)
        assert path is None or any("poll_endpoint" in told for told in scene.log.events)

    play(tmp_path, act)


def test_hostile_answers_of_the_server_end_one_run_at_most(tmp_path: Path) -> None:
    random = Random(SEED)
    asked = {
        "POST /runner/register": ("runner_id", "poll_endpoint", "poll_timeout_seconds", "ao_protocol", "detail"),
        "GET /runner/runs": ("run", "stop_sessions", "sync_scripts", "remove_scripts", "events", "status"),
        "GET /runs$": ("runs", "detail"),
        "GET /sessions/[^/]*$": ("session", "detail"),
        "GET /agents/": ("name", "type", "script", "mcp_servers", "parameters_schema"),
        "/started": ("ok", "detail"),
        "POST /runner/heartbeat": ("ok", "heartbeat_interval_seconds", "detail"),
    }

    async def act(scene: Scene) -> None:
        async with scene.worker() as (worker, task):
            await performs_one_more(scene, "run_first")
            for number in range(ROUNDS):
                request = random.choice(list(asked)[1:])
                body = hostile_text(random, asked[request]).encode("latin-1", "replace")
                scene.server.misbehave(Fault("answer", random.choice([200, 200, 404, 503]), body), request)
                names = ["agent_name", "parameters", "type", "attempt", "created_at", "scope", "project_dir",
                         "resolved_agent_blueprint"]  # fmt: skip
                fields = {name: random.choice(HOSTILE) for name in random.sample(names, random.randint(1, 2))}
                kind = {"type": random.choice(["start_session", "resume_session"])}
                scene.server.state.enqueue(f"run_{number}", f"ses_{number}", **{"parameters": {}, **kind, **fields})
            scene.server.state.notify({"stop_sessions": ["\ud800", 1, "s" * 100_000], "run": {"run_id": "\ud800"}})
            scene.server.state.forget_runners()
            await performs_one_more(scene)
            await scene.leave(worker, task, times=2)
        assert not any("internal error" in told for told in scene.log.events), scene.log.values

    play(tmp_path, act)


def test_hostile_events_of_an_executor_end_its_run_at_most(tmp_path: Path) -> None:
    random = Random(SEED)
    fields = ("event_type", "timestamp", "seq", "session_id", "message", "executor_session_id", "tool_call_id", "data")
    types = ("message", "session_bound", "tool_started", "tool_finished", "log", "usage", "_x/y", "vendor.odd",
             "heartbeat")  # fmt: skip

    async def act(scene: Scene) -> None:
        for number in range(ROUNDS // 2):
            events = [
                {"event_type": random.choice(types), "tool_call_id": "1", "tool_name": "t", "executor_session_id": "e",
                 "role": "assistant", "message_id": "m", "content": [{"type": "text", "text": "\ud800"}],
                 "status": "completed", "tool_input": {}, "tool_output": "x", "input_tokens": 1, "output_tokens": 1,
                 random.choice(fields): random.choice(HOSTILE)}
                for _ in range(random.randint(1, 8))
            ]  # fmt: skip
            scene.enqueue(f"run_{number}", json.dumps(events))
        async with scene.worker() as (worker, task):
            await performs_one_more(scene)
            await scene.until_ended(*(f"run_{number}" for number in range(ROUNDS // 2)))
            await scene.leave(worker, task)
            assert worker.outbox.open_keys() == []
        assert not any("internal error" in told or "handed over" in told for told in scene.log.events), scene.log.values

    play(tmp_path, act)


def test_a_damaged_row_of_the_queue_ends_its_own_run_only(home: Home) -> None:
    random = Random(SEED)
    bad = [home.submit_to(f"ses_{number}", "hi", GOOD) for number in range(ROUNDS // 2)]
    with sqlite3.connect(home.folder / "ao.sqlite3") as store:

        def damage(table: str, column: str, value: str, run_id: str, *values: object) -> None:
            where = "session_id = (SELECT session_id FROM runs WHERE run_id = ?)"
            with suppress(sqlite3.DatabaseError):  # the store itself refuses some
                store.execute(f"UPDATE {table} SET {column} = {value} WHERE {where}", (*values, run_id))  # noqa: S608

        damage("sessions", "blueprint", "CAST(x'ff7b' AS TEXT)", bad[0])
        damage("sessions", "executor_config", "CAST(x'ff7b' AS TEXT)", bad[1])
        damage("runs", "parameters", "'{'", bad[2])
        damage("runs", "attempt", str(2**63 - 1), bad[3])
        for run_id in bad[4:]:
            table = random.choice(list(COLUMNS))
            column = random.choice(COLUMNS[table])
            value = random.choice(NUMBERS.get(column, VALUES))
            damage(table, column, "?", run_id, value)
    good = home.submit_to("ses_good", "hi", GOOD)

    worker = home.drained()

    with home.store() as opened:
        rows = opened.connection.execute("SELECT run_id, status, error_type FROM runs").fetchall()
    ends = {run_id: end for run_id, *end in rows}
    assert ends[good] == ends[bad[3]] == ["completed", None]
    assert all(ends[run_id][0] in {"completed", "failed"} for run_id in bad), ends
    assert ends[bad[0]] == ends[bad[1]] == ends[bad[2]] == ["failed", "internal_error"]
    assert "row of session ses_0 is damaged" in home.events(bad[0])[-1]["error"]["message"]
    told = home.call("events", "ses_2")
    assert f"row of run {bad[2]} is damaged" in told.stdout + told.stderr
    assert worker.said("a queued run is not performed")
    assert home.call("runs").returncode == 1  # it names the damaged rows


def test_a_hostile_line_of_stdin_ends_its_own_run_only(home: Home, tmp_path: Path) -> None:
    random = Random(SEED)
    maybe = tmp_path / "maybe.yaml"
    maybe.write_text("name: !!bool maybe\n", encoding="utf-8")
    fields = ("blueprint", "parameters", "run_id", "session_id", "profile", "project_dir", "output_schema", "cancel",
              "prompt", "executor_session_id", "output_schema_options", "timeout_seconds", "metadata")  # fmt: skip
    lines = ["nope", "{}", json.dumps({"blueprint": str(maybe), "run_id": "run_maybe"})]
    for _ in range(ROUNDS):
        text = hostile_text(random, fields)
        lines.append(text[:-1] + ', "blueprint": {"name": "a"}}' if text.startswith('{"') else text)
    lines.append(json.dumps({"blueprint": {"name": "a"}, "prompt": "[]", "run_id": "run_good"}))
    with home.worker(
        "--coordinator", "stdout", "--profile", SAYS, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.process.stdin is not None
        assert worker.process.stdout is not None
        with worker.process.stdin as runs:
            runs.write("\n".join(lines).encode("utf-8", "replace"))
        events = [json.loads(line) for line in worker.process.stdout]
        assert worker.left() == 64, worker.other
    assert [event["event_type"] for event in events if event["run_id"] == "run_good"][-1] == "result"
    assert worker.said("maybe")
    assert not any("Traceback" in line for line in worker.other)


def test_a_worker_starts_whatever_is_left_in_its_home(home: Home) -> None:
    random = Random(SEED)
    for number in range(4):
        place = home.folder / "outboxes" / "local" / str(number)
        with Outbox(place) as outbox:
            for run in range(4):
                key = RunKey(f"run_{number}_{run}", 1)
                outbox.expect(key, json.dumps(random.choice(HOSTILE)) if run else '{"session_id":')
                outbox.append(key, 1, [json.dumps(random.choice(HOSTILE)).encode()] * 3, ends=run == 2)
        file = place / "outbox.sqlite3"
        content = bytearray(file.read_bytes())
        for _ in range(number):
            content[random.randrange(len(content))] = random.randrange(256)
        file.write_bytes(content)
    dead = home.folder / "belongings" / "dead"
    dead.mkdir(parents=True)
    owners = home.folder / "owners"
    (owners / "folder").mkdir(parents=True)
    for number, value in enumerate((*HOSTILE, {"scratch": "a\0b"}, {"leader": 10**30, "began": "x"})):
        (dead / str(number)).write_text(json.dumps(value), encoding="utf-8")
        (owners / str(number)).write_text(json.dumps(value), encoding="utf-8")
    good = home.submit_to("ses_good", "hi", GOOD)

    home.drained()

    assert {state.run.run_id: state.run.status for state in home.states()}[good] == "completed"


def test_a_hostile_description_is_told_as_none() -> None:
    random = Random(SEED)
    usual = {"schema_versions": ["3.0"], "executor": {"name": "m", "version": "1"}, "capabilities": {}}
    for _ in range(2000):
        text = hostile_text(random, (*usual, "secrets", "environment", "model_endpoint", "agent_types"))
        merged = json.dumps(usual)[:-1] + ", " + text[1:] if random.random() < 0.5 and text[:1] == "{" else text
        try:
            parse_description(merged.encode("utf-8", "replace"))
        except InvalidDescription:
            continue
