"""A disk that does not give back for a while what was written: delivery waits, says so, and goes on."""

import asyncio
import json
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from ao_runner.coordinators.pipe import RunDefaults, StdoutCoordinator
from ao_runner.outbox.outbox import Outbox, OutboxOptions
from ao_runner.run_events import RunKey
from ao_runner.runs.lost_runs import RunSummary
from ao_runner.worker.delivery import Delivery, deliver_left_behind, end_unended
from tests.faults.worker.serving import Heard
from tests.faults.worker.unreadable import no_reads
from tests.process.runner.coordinators.lines import line, result, said

KEY = RunKey("run_1", 1)
UNCACHED = OutboxOptions(cache_bytes=0)
SECONDS = 100.0


@contextmanager
def no_descriptor(_: Path) -> Iterator[None]:
    """Let no file be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def no_way_there(folder: Path) -> Iterator[None]:
    """Have a link that leads to itself in the place of each file."""
    aside = [(path, path.rename(f"{path}.aside")) for path in sorted(folder.glob("outbox.sqlite3*"))]
    for path, _ in aside:
        path.symlink_to(path)
    yield
    for path, kept in aside:
        kept.rename(path)


async def until(reached: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not reached():  # noqa: ASYNC110  # of somebody else's state
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("fault", [no_descriptor, no_way_there, no_reads])
def test_events_that_cannot_be_read_for_a_while_are_delivered_afterwards(
    tmp_path: Path, fault: Callable[[Path], AbstractContextManager[None]]
) -> None:
    lines = [said(1, "a"), said(2, "b"), result(3)]
    log = Heard()

    async def delivered(_key: RunKey, _instead: object) -> None:
        log.info("delivered")

    async def stays(_key: RunKey) -> bool:
        return False

    async def story(outbox: Outbox, stdin: int, stdout: int) -> None:
        async with StdoutCoordinator(RunDefaults("x", "x", "x"), log.info, stdin, stdout) as coordinator:
            delivery = Delivery(coordinator, outbox, tmp_path, log)
            async with asyncio.TaskGroup() as group:
                delivery.attach(group)
                delivery.on_delivered, delivery.stays = delivered, stays
                with fault(outbox.folder):
                    delivery.wake(KEY)
                    await until(lambda: delivery.unreadable_runs if fault is no_reads else delivery.is_idle)

    with (
        Outbox(tmp_path / "outbox", UNCACHED) as outbox,
        open(os.devnull) as stdin,  # noqa: PTH123
        (tmp_path / "out").open("wb") as stdout,
    ):
        outbox.append(KEY, 1, lines, ends=True)
        outbox.sync()
        asyncio.run(story(outbox, stdin.fileno(), stdout.fileno()))
        assert outbox.open_keys() == []

    assert (tmp_path / "out").read_bytes().splitlines() == lines
    told = ["outbox cannot be read; trying again", "outbox can be read again"]
    assert log.events == [*(told if fault is no_reads else []), "delivered"]


@pytest.mark.thorough
def test_what_a_dead_worker_left_and_nobody_can_read_is_left_for_later(tmp_path: Path) -> None:
    log = Heard()
    coordinator = StdoutCoordinator(RunDefaults("x", "x", "x"), log.info)  # nothing of it is opened
    with Outbox(tmp_path / "0", UNCACHED) as dead:
        dead.append(KEY, 1, [said(1, "a")])

    heir = Outbox(tmp_path / "0", UNCACHED)
    with no_reads(heir.folder):
        asyncio.run(deliver_left_behind(heir, Delivery(coordinator, heir, tmp_path, log), log))

    assert log.events == ["events of a dead worker cannot be delivered yet"]
    with Outbox(tmp_path / "0", UNCACHED) as later:
        assert [(state.key, state.durable_seq) for state in later.open_keys()] == [(KEY, 1)]


def test_a_run_ends_behind_events_that_are_damaged(tmp_path: Path) -> None:
    tool = line("tool_started", 2, tool_call_id="t1", tool_name="Bash")
    with Outbox(tmp_path, UNCACHED) as outbox:
        outbox.expect(KEY, RunSummary(session_id="ses_1").to_note())
        for seq, event in enumerate([said(1, "a"), tool], 1):
            outbox.append(KEY, seq, [event])
            outbox.sync()
        log = tmp_path / "outbox.sqlite3-wal"
        content = log.read_bytes()
        log.write_bytes(content.replace(b'"a"', b'"b"'))

        assert end_unended(outbox) == [KEY]
        outbox.sync()
        batch = outbox.next_batch(KEY, after_seq=2)

    assert batch is not None
    assert [json.loads(event)["event_type"] for event in batch.lines] == ["tool_finished", "failure"]
