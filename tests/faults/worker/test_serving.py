"""An HTTP coordinator that misbehaves: each run is performed once and ends once, nothing is lost."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ao_runner.outbox.outbox import OutboxOptions
from ao_runner.run_events import RunKey
from ao_runner.worker.metrics import Metrics, Watched
from ao_runner.worker.observers import RunLog
from tests.faults.worker.serving import Scene, served
from tests.faults.worker.unreadable import no_reads
from tests.faults.worker.working import MINIATURES
from tests.foreign_coordinator.faults import ANSWER_LOST, BROKEN, DOWN, HALF_OPEN, PROXY_PAGE, Fault, busy, refusing
from tests.process.runner.coordinators.drivers import QUICK

EVENTS = "POST /sessions/.*/events"


def play(folder: Path, act: Callable[[Scene], Awaitable[None]]) -> None:
    """Let a scene be played, and look whether anybody is left behind."""

    async def whole() -> None:
        async with served(folder) as scene:
            await act(scene)
            scene.home.check([])

    asyncio.run(whole())


def texts(scene: Scene, run_id: str) -> list[int]:
    """Return the numbers of the messages that the server has, one that came twice with one timestamp only once."""
    rows = scene.server.state.answers(f"ses_{run_id}")
    told = {row["timestamp"]: row for row in rows if row["event_type"] == "message"}
    return [int(row["content"][0]["text"].split()[1]) for row in told.values()]


@pytest.mark.parametrize(
    ("fault", "requests", "times"),
    [
        (BROKEN, EVENTS, 3),
        (BROKEN, "POST /runner/runs", 3),
        (busy(0.05), EVENTS, 3),
        (busy(0.05), "GET /runner/runs", 2),
        (HALF_OPEN, EVENTS, 1),
        (HALF_OPEN, "/started", 1),
        (PROXY_PAGE, EVENTS, 2),
        (DOWN, "", 8),
        (ANSWER_LOST, EVENTS, 2),
        (ANSWER_LOST, "/started", 1),
        (ANSWER_LOST, "/completed", 1),
    ],
    ids=[
        "500-to-events", "500-to-ends", "429-to-events", "429-to-polls", "half-open", "half-open-start", "garbage",
        "refuses-connections", "event-answer-lost", "start-answer-lost", "end-answer-lost",
    ],
)  # fmt: skip
def test_a_fault_of_the_server_doubles_nothing_and_loses_nothing(
    tmp_path: Path, fault: Fault, requests: str, times: int
) -> None:
    async def act(scene: Scene) -> None:
        scene.enqueue("run_1", "20 0")
        async with scene.worker() as (worker, task):
            await scene.until(lambda: scene.server.count("GET /runner/runs"), "it does not poll")
            scene.server.misbehave(fault, requests, times)
            await scene.until_ended("run_1")
            left = await scene.leave(worker, task)
        assert (left.cancelled_runs, left.undelivered_runs) == (0, 0)
        assert scene.home.noted("run_1.starts") == ["start"]
        assert scene.ends("run_1") == ["completed"]
        assert texts(scene, "run_1") == list(range(20))
        assert len(scene.results("run_1")) == 1

    play(tmp_path, act)


def test_a_server_that_restarts_and_knows_no_worker_any_more_gets_everything(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.enqueue("run_1", "60 0.01")
        async with scene.worker() as (worker, task):
            await scene.until(lambda: scene.home.flushed("run_1") > 10, "nothing was flushed")
            await scene.server.__aexit__()
            scene.server.state.forget_runners()
            await scene.until(lambda: scene.home.flushed("run_1") == 62, "it does not go on")
            await scene.server.__aenter__()
            await scene.until_ended("run_1")
            await scene.leave(worker, task)
        assert texts(scene, "run_1") == list(range(60))
        assert (scene.ends("run_1"), len(scene.results("run_1"))) == (["completed"], 1)

    play(tmp_path, act)


def test_a_server_that_has_forgotten_its_runs_takes_the_next_one(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.enqueue("run_1", "20 0.01")
        async with scene.worker() as (worker, task):
            await scene.until(lambda: scene.home.flushed("run_1") > 5, "nothing was flushed")
            state = scene.server.state
            for known in (state.runs, state.sessions, state.events, state.runners):
                known.clear()
            scene.enqueue("run_2", "3 0")
            await scene.until_ended("run_2")
            left = await scene.leave(worker, task)
        assert left.undelivered_runs == 0
        assert (scene.ends("run_2"), texts(scene, "run_2")) == (["completed"], [0, 1, 2])

    play(tmp_path, act)


@pytest.mark.parametrize("has_ended", [False, True], ids=["running", "ended"])
def test_a_run_that_is_handed_out_twice_is_performed_once(tmp_path: Path, has_ended: bool) -> None:
    async def act(scene: Scene) -> None:
        scene.enqueue("run_1", "20 0.01")
        again = dict(scene.server.state.runs["run_1"])
        async with scene.worker() as (worker, task):
            await scene.until(lambda: scene.home.flushed("run_1") > 5, "nothing was flushed")
            if has_ended:
                await scene.until_ended("run_1")
            scene.server.state.pending.append(again)
            scene.enqueue("run_2", "1 0")
            await scene.until_ended("run_1", "run_2")
            await scene.leave(worker, task)
        assert scene.home.noted("run_1.starts") == ["start"]
        assert (scene.ends("run_1"), len(scene.results("run_1"))) == (["completed"], 1)

    play(tmp_path, act)


def test_a_run_that_is_handed_out_again_to_the_next_worker_is_performed_once(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.enqueue("run_1", "2 0")
        forgotten = dict(scene.server.state.runs["run_1"])
        async with scene.worker() as (worker, task):
            await scene.until_ended("run_1")
            await scene.leave(worker, task)
        scene.server.state.runs["run_1"] = forgotten
        polls = scene.server.count("GET /runner/runs")
        async with scene.worker() as (worker, task):
            # The last poll of the first worker would be given the run, too.
            await scene.until(lambda: scene.server.count("GET /runner/runs") > polls + 2, "it does not poll")
            scene.server.state.pending.append(forgotten)
            scene.enqueue("run_2", "1 0")
            await scene.until_ended("run_2")
            await scene.leave(worker, task)
        assert scene.home.noted("run_1.starts") == ["start"]
        assert len(scene.results("run_1")) == 1
        assert "run was assigned twice; it is performed once" in scene.log.events

    play(tmp_path, act)


@pytest.mark.parametrize("requests", [EVENTS, "/completed"], ids=["result", "end"])
def test_a_run_whose_end_is_refused_ends_once_as_failed_and_the_end_is_kept(tmp_path: Path, requests: str) -> None:
    async def act(scene: Scene) -> None:
        scene.enqueue("run_1", "0 0")
        scene.server.misbehave(refusing(422, "too large"), requests, 10_000)
        async with scene.worker() as (worker, task):
            await scene.until_ended("run_1")
            left = await scene.leave(worker, task)
        assert left.undelivered_runs == 0
        assert scene.ends("run_1") == ["failed"]
        refused = scene.home.folder / "outboxes" / "http" / "refused.jsonl"
        told = scene.server.state.runs["run_1"]["said"][-1]["failed"]["error"]
        assert told.startswith("internal_error: the coordinator rejected the result of the run")
        assert str(refused) in told
        assert "422: too large" in told
        why, line = map(json.loads, refused.read_text(encoding="utf-8").splitlines())
        assert (why["run_id"], line["event_type"], line["seq"]) == ("run_1", "result", why["seq"])

    play(tmp_path, act)


STAYS_FOR_A_WHILE = f"""#!{sys.executable}
import pathlib, sys
sys.path.append({str(MINIATURES)!r})
from speaking import Speaker
speaker = Speaker()
speaker.start()
speaker.result()
pathlib.Path("go").read_bytes()  # a pipe
"""


def is_let_go(pipe: Path) -> bool:
    """Let whoever waits for a pipe go on; false when nobody does."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("refused", ["before", "after"])
def test_log_and_metrics_say_what_was_told_in_place_of_a_refused_end(tmp_path: Path, refused: str) -> None:
    """Whether it is refused before or after the process of the run has left."""
    metrics, executor = Metrics(), tmp_path / "stays"
    executor.write_text(STAYS_FOR_A_WHILE)
    executor.chmod(0o755)

    async def act(scene: Scene) -> None:
        scene.executor, scene.observers = str(executor), [RunLog(scene.log), metrics]
        os.mkfifo(scene.home.project / "go")
        scene.enqueue("run_1", "0 0")

        def be_away_until_the_process_has_left(request: str) -> None:
            if refused == "after" and request.endswith("/completed") and "run ended" not in scene.log.events:
                raise ConnectionError

        scene.server.on_request = be_away_until_the_process_has_left
        scene.server.misbehave(refusing(422, "no"), "/completed", 10_000)
        async with scene.worker() as (worker, task):
            if refused == "before":
                await scene.until_ended("run_1")
            await scene.until(lambda: is_let_go(scene.home.project / "go"), "nobody reads")
            await scene.until_ended("run_1")
            await scene.leave(worker, task)
        ends = [
            (event, values["outcome"], values["error_type"])
            for event, values in zip(scene.log.events, scene.log.values, strict=True)
            if "outcome" in values
        ]
        corrected = ("run ended as failed: coordinator rejects its own end", "failed", "internal_error")
        assert ends == (
            [corrected, ("run ended", "failed", "internal_error")]
            if refused == "before"
            else [("run ended", "completed", None), corrected]
        )

    play(tmp_path, act)
    counted = [
        sample for family in metrics.runs.collect() for sample in family.samples if sample.name.endswith("_total")
    ]
    assert [(sample.labels["outcome"], sample.labels["error_type"], sample.value) for sample in counted] == [
        ("failed", "internal_error", 1)
    ]


def test_a_run_whose_every_end_is_refused_holds_up_nobody(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.enqueue("run_1", "0 0")
        scene.server.misbehave(refusing(422, "no"), "run_1/(completed|failed)", 10_000)
        async with scene.worker() as (worker, task):
            await scene.until(lambda: "coordinator rejects every end of the run" in scene.log.events, "it is not told")
            scene.enqueue("run_2", "1 0")
            await scene.until_ended("run_2")
            left = await scene.leave(worker, task)
        assert left.undelivered_runs == 0
        assert (scene.ends("run_1"), scene.ends("run_2")) == ([], ["completed"])
        refused = (scene.home.folder / "outboxes" / "http" / "refused.jsonl").read_text(encoding="utf-8").splitlines()
        assert [json.loads(line)["event_type"] for line in refused[1::2]] == ["result", "failure"]

    play(tmp_path, act)


def test_a_disk_that_gives_nothing_back_for_a_while_holds_up_the_delivery_only(tmp_path: Path) -> None:
    metrics = Metrics()

    def figures() -> dict[str, float]:
        return {sample.name: sample.value for family in metrics.registry.collect() for sample in family.samples}

    async def act(scene: Scene) -> None:
        scene.options = OutboxOptions(cache_bytes=0)
        scene.enqueue("run_1", "200 0.01")
        async with scene.worker() as (worker, task):
            metrics.watch(Watched(worker.held, worker.outbox, 1, 4, unreadable_runs=lambda: worker.unreadable_runs))
            key = RunKey("run_1", 1)
            await scene.until(lambda: scene.server.count(EVENTS) > 1, "nothing is delivered")
            scene.server.misbehave(HALF_OPEN, EVENTS, 1_000)  # what comes meanwhile is read from the disk
            await scene.until(lambda: worker.outbox.next_batch(key, after_seq=10), "nothing is durable")
            with no_reads(worker.outbox.folder):
                scene.server.behave()
                await scene.until(lambda: worker.unreadable_runs, "it reads")
                assert "outbox cannot be read; trying again" in scene.log.events
                assert worker.trouble == "the outbox cannot be read"
                assert figures()["ao_worker_outbox_unreadable_runs"] == 1
            await scene.until_ended("run_1")
            await scene.leave(worker, task)
        assert "outbox can be read again" in scene.log.events
        assert figures()["ao_worker_outbox_unreadable_runs"] == 0
        assert (scene.ends("run_1"), texts(scene, "run_1")) == (["completed"], list(range(200)))

    play(tmp_path, act)


def test_a_worker_whose_server_is_gone_leaves_before_a_run_that_has_not_begun(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.enqueue("run_1", "20 0")
        scene.server.misbehave(DOWN, "/started", 10_000)
        async with scene.worker() as (worker, task):
            await scene.until(lambda: scene.server.count("/started") > 1, "it is not claimed")
            await scene.leave(worker, task, times=2)
        assert scene.home.noted("run_1.starts") == []

    play(tmp_path, act)


def test_a_worker_that_nobody_answers_leaves_when_it_is_told_twice(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.server.misbehave(HALF_OPEN, "/runner/register", 10_000)
        async with scene.worker(replace(QUICK, answer_seconds=10_000)) as (worker, task):
            await scene.until(lambda: scene.server.count("/runner/register"), "it does not register")
            await scene.leave(worker, task, times=2)

    play(tmp_path, act)


def test_what_is_left_because_the_server_is_away_is_delivered_by_the_next_worker(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.enqueue("run_1", "20 0.01")
        async with scene.worker() as (worker, task):
            await scene.until(lambda: scene.home.flushed("run_1") > 5, "nothing was flushed")
            await scene.server.__aexit__()
            await scene.until(lambda: "run ended" in scene.log.events or worker.held.in_slots == 0, "it does not end")
            left = await scene.leave(worker, task, times=2)
            assert (left.cancelled_runs, left.undelivered_runs) == (0, 1)
        scene.server.state.forget_runners()
        await scene.server.__aenter__()
        async with scene.worker() as (worker, task):
            await scene.until_ended("run_1")
            await scene.leave(worker, task)
        assert scene.home.noted("run_1.starts") == ["start"]
        assert (scene.ends("run_1"), texts(scene, "run_1")) == (["completed"], list(range(20)))

    play(tmp_path, act)
