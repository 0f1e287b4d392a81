"""Runs on stdin, events on stdout: pipes, files, readers that are slow or gone."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ao_protocol.events import Failure, parse_event
from ao_runner.coordinators.pipe import RunDefaults, StdoutCoordinator
from ao_runner.coordinators.port import Assignment, CoordinatorUnavailable, CoordinatorUnusable, Orders
from ao_runner.run_events import RunKey
from tests.odd_values import ODD_VALUES, OddValue
from tests.process.runner.coordinators.drivers import StdoutDriver
from tests.process.runner.coordinators.lines import batch, result, said

DEFAULTS = RunDefaults("echo", "/bin/ao-echo-exec", "/project")
AGENT = b'"blueprint": {"name": "greeter"}'
KEY = RunKey("run_1", 1)


def with_agent(line: bytes) -> bytes:
    if b'"blueprint"' in line or line[:1] != b"{":
        return line
    return b"{" + AGENT + b"}" if line == b"{}" else b"{" + AGENT + b", " + line[1:]


def read_file(path: Path, content: str | bytes, stdout: int = 1) -> tuple[list[Assignment], list[str]]:
    """Return the runs that stand in a file which stdin is redirected to, and what was told about the rest.

    A line that names no agent is completed with one.
    """
    told: list[str] = []
    runs: list[Assignment] = []

    async def claim_all(coordinator: StdoutCoordinator) -> None:
        while True:
            for run in await coordinator.claim(2):
                runs.append(run)
                assert await coordinator.heartbeat([]) == Orders()
                await coordinator.started(run.key)

    async def story(stdin: int) -> None:
        async with StdoutCoordinator(DEFAULTS, told.append, stdin, stdout) as coordinator:
            claiming = asyncio.ensure_future(claim_all(coordinator))
            assert await coordinator.orders() == Orders(drain=True)
            claiming.cancel()

    lines = (content.encode() if isinstance(content, str) else content).split(b"\n")
    path.write_bytes(b"\n".join(map(with_agent, lines)))
    with path.open() as file:
        asyncio.run(asyncio.wait_for(story(file.fileno()), 100))
    return runs, told


def test_a_file_of_runs_is_read_to_its_end_and_then_the_worker_is_to_leave(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text("name: reviewer\n")
    lines = [
        {"prompt": "Hi"},
        {"blueprint": str(tmp_path / "agent.yaml"), "parameters": {"topic": "x"}, "timeout_seconds": 5},
        {"run_id": "run_3", "session_id": "ses_3", "executor_session_id": "exec_3", "prompt": "And?"},
        {"blueprint": {"name": "inline"}, "output_schema": {"type": "object"}},
    ]
    runs, told = read_file(tmp_path / "runs", "\n".join(map(json.dumps, lines)))
    assert told == []
    assert [run.session.agent_name for run in runs] == ["greeter", "reviewer", "greeter", "inline"]
    assert [run.run.parameters for run in runs] == [{"prompt": "Hi"}, {"topic": "x"}, {"prompt": "And?"}, {}]
    assert [run.run.mode for run in runs] == ["start", "start", "resume", "start"]
    assert (runs[1].run.timeout_seconds, runs[2].session.executor_session_id) == (5, "exec_3")
    assert len({run.key.run_id for run in runs}) == 4
    assert runs[3].run.contract is not None
    assert runs[3].run.contract["source"] == "inline"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "line 1, column 1: Expecting value"),
        ("[1]", "found a list, expected a run such as"),
        ('{"parameters": 1}', "$.parameters: input should be a valid dictionary, found 1"),
        ('{"timeout_seconds": -1}', "$.timeout_seconds"),
        ('{"blueprint": "nowhere.yaml"}', "$.blueprint: nowhere.yaml: No such file"),
        (r'{"blueprint": "nul\u0000.yaml"}', "no file has such a name: embedded null byte"),
        ('{"blueprint": {"system_prompt": "x"}}', '$.blueprint: $: "name" is a required property'),
        ('{"run_id": "run_1"}', "run_id 'run_1' stood on an earlier line"),
        ('{"cancel": 7}', "$.cancel: expected a run_id, found 7"),
        (json.dumps({"run_id": "x" * 513}), "$.run_id: found 513 characters"),
        (r'{"session_id": "a\u0000b"}', "$.session_id: found U+0000 at character 1, expected a name"),
        (r'{"blueprint": {"name": "a\u001b"}}', "$.blueprint: $.name: found U+001B at character 1, expected a name"),
    ],
    ids=[
        "not_json",
        "array",
        "parameters",
        "timeout",
        "no_file",
        "nul",
        "bad_blueprint",
        "twice",
        "bad_cancel",
        "long_id",
        "odd_id",
        "odd_name",
    ],
)
def test_a_line_that_is_no_run_is_named_and_skipped(tmp_path: Path, line: str, reason: str) -> None:
    runs, (told,) = read_file(tmp_path / "runs", f'{{"run_id":"run_1"}}\n\n{line}\n{{"run_id":"run_2"}}\n')
    assert [run.key.run_id for run in runs] == ["run_1", "run_2"]
    assert told.startswith("stdin, line 3: ")
    assert reason in told


@pytest.mark.parametrize("odd", ODD_VALUES.values(), ids=ODD_VALUES)
def test_an_odd_value_of_a_line_is_refused_with_its_place_or_assigned(tmp_path: Path, odd: OddValue) -> None:
    runs, told = read_file(tmp_path / "runs", b'{"parameters": {"prompt": ' + odd.written + b'}}\n{"run_id":"run_2"}\n')
    if odd.problem is None:
        assert (len(runs), told) == (2, [])
        assert runs[0].run.parameters == {"prompt": json.loads(odd.written)}
    else:
        assert [run.key.run_id for run in runs] == ["run_2"]
        assert told[0].startswith("stdin, line 1: ")


@pytest.mark.parametrize(
    ("line", "error_type", "ids"),
    [
        ("nonsense", "invalid_json", [None, None]),
        ("[1]", "invalid_json", [None, None]),
        ('{"prompt": 1, "run_id": "run_2", "session_id": "ses_2"}', "invalid_invocation", ["run_2", "ses_2"]),
        ('{"blueprint": "nowhere.yaml", "run_id": "run_2"}', "invalid_invocation", ["run_2", None]),
        ('{"prompt": 1, "run_id": "run_2", "session_id": 7}', "invalid_invocation", ["run_2", None]),
        ('{"prompt": 1, "run_id": "run_1", "session_id": "ses_2"}', "invalid_invocation", [None, None]),
        ('{"run_id": "run_1", "session_id": "ses_2"}', "invalid_invocation", [None, None]),
        ('{"prompt": 1, "run_id": ["run_2"]}', "invalid_invocation", [None, None]),
        ('{"cancel": 7}', "invalid_invocation", [None, None]),
        ('{"cancel": "' + "x" * 20 * 1024**2 + '"}', "invocation_too_large", [None, None]),
    ],
    ids=["text", "array", "ids", "no_file", "bad_session", "bad_and_twice", "twice", "bad_id", "cancel", "long"],
)
def test_a_line_that_is_no_run_is_a_failure_on_stdout(
    tmp_path: Path, line: str, error_type: str, ids: list[str | None]
) -> None:
    written = tmp_path / "events"
    with written.open("wb") as stdout:
        runs, _ = read_file(tmp_path / "runs", f'{{"run_id":"run_1"}}\n\n{line}\n{{}}\n', stdout.fileno())
    (event,) = [parse_event(line) for line in written.read_bytes().splitlines()]

    assert len(runs) == 2
    assert isinstance(event.body, Failure)
    assert (event.body.error.type, event.body.error.details) == (error_type, {"line": 3})
    assert event.body.error.message.startswith("line 3 of stdin: ")
    assert [event.envelope.run_id, event.envelope.session_id] == ids


def test_the_id_of_a_line_that_failed_is_not_taken_again(tmp_path: Path) -> None:
    runs, (_, told) = read_file(tmp_path / "runs", '{"prompt": 1, "run_id": "run_1"}\n{"run_id": "run_1"}\n{}\n')
    assert len(runs) == 1
    assert "run_id 'run_1' stood on an earlier line" in told


def test_a_misspelled_field_of_a_run_is_told_and_the_run_is_performed(tmp_path: Path) -> None:
    runs, told = read_file(tmp_path / "runs", '{"promt": "Hi", "x-mine": 1}\n')
    assert len(runs) == 1
    assert told == ["stdin, line 1: $.promt: unknown field, ignored; did you mean 'prompt'?"]


async def test_a_slow_reader_holds_the_events_up_and_gets_them_whole(tmp_path: Path) -> None:
    async with StdoutDriver(tmp_path) as driver, driver.open() as coordinator:
        lines = [said(seq, "x" * 1000) for seq in range(1, 201)]
        writing = asyncio.ensure_future(coordinator.events(batch(1, *lines)))
        assert not (await asyncio.wait([writing], timeout=0.05))[0]
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        again = asyncio.ensure_future(coordinator.events(batch(1, *lines)))
        while not again.done():
            driver.events_of("")
            await asyncio.sleep(0)
        assert await again == 200
        assert [event["seq"] for event in driver.events_of("run_1")] == list(range(1, 201))


async def test_a_reader_that_has_gone_makes_the_coordinator_unusable() -> None:
    (runs_from, runs_to), (events_from, events_to) = os.pipe(), os.pipe()
    async with StdoutCoordinator(DEFAULTS, lambda _: None, runs_from, events_to) as coordinator:
        os.close(events_from)
        with pytest.raises(CoordinatorUnusable, match="its reader has gone"):
            await coordinator.terminal(KEY, 1, result(1))
    for descriptor in (runs_from, runs_to, events_to):
        os.close(descriptor)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the next write shows it")
async def test_a_reader_that_goes_while_all_runs_are_silent_makes_the_coordinator_unusable() -> None:
    (runs_from, runs_to), (events_from, events_to) = os.pipe(), os.pipe()
    async with StdoutCoordinator(DEFAULTS, lambda _: None, runs_from, events_to) as coordinator:
        waiting = asyncio.ensure_future(coordinator.orders())
        os.close(events_from)
        with pytest.raises(CoordinatorUnusable, match="its reader has gone"):
            await waiting
    for descriptor in (runs_from, runs_to, events_to):
        os.close(descriptor)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which this system has not")
async def test_a_full_disk_keeps_the_events_for_later() -> None:
    runs_from, runs_to = os.pipe()
    full = os.open("/dev/full", os.O_WRONLY)
    async with StdoutCoordinator(DEFAULTS, lambda _: None, runs_from, full) as coordinator:
        with pytest.raises(CoordinatorUnavailable, match="No space left"):
            await coordinator.events(batch(1, said(1, "a")))
    for descriptor in (runs_from, runs_to, full):
        os.close(descriptor)


async def test_what_was_read_and_not_performed_is_named(tmp_path: Path) -> None:
    told: list[str] = []
    is_read = asyncio.Event()

    def tell(sentence: str) -> None:
        told.append(sentence)
        is_read.set()

    lines = [b'{"run_id":"run_1"}', b'{"run_id":"run_2"}', b"nonsense"]
    (tmp_path / "runs").write_bytes(b"\n".join(map(with_agent, lines)))
    with (tmp_path / "runs").open() as stdin:
        async with StdoutCoordinator(DEFAULTS, tell, stdin.fileno(), 1) as coordinator:
            await coordinator.claim(1)
            await coordinator.release(KEY, None)
            await is_read.wait()
    assert told[1:] == ["run run_1 was not performed", "run run_2 was not performed"]


async def test_a_stdin_that_cannot_be_read_makes_the_coordinator_unusable(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    async with StdoutCoordinator(DEFAULTS, lambda _: None, folder, 1) as coordinator:
        with pytest.raises(CoordinatorUnusable, match="give it a pipe or a file"):
            await coordinator.claim(1)
    os.close(folder)


async def test_a_cancel_of_a_run_that_waits_is_ordered_as_soon_as_the_worker_knows_the_run(tmp_path: Path) -> None:
    async with StdoutDriver(tmp_path) as driver, driver.open() as coordinator:
        for number in range(50):
            driver.enqueue(f"run_{number}", f"ses_{number}", "Hi")
        driver.cancel("run_7")
        driver.cancel("run_50")  # no run that waits: it is told at once, when all before it has been read
        assert await coordinator.orders() == Orders(cancel_runs=frozenset({"run_50"}))
        for run in await coordinator.claim(50):
            await coordinator.started(run.key)
            ordered = (await coordinator.heartbeat([])).cancel_runs
            assert ordered == ({"run_7"} if run.key.run_id == "run_7" else frozenset())


RELAY = """
import asyncio, sys
from ao_runner.coordinators.port import EventBatch
from ao_runner.coordinators.pipe import StdoutCoordinator
from ao_runner.coordinators.pipe import RunDefaults

async def main():
    async with StdoutCoordinator(RunDefaults("echo", "/x", "/"), print) as coordinator:
        (run,) = await coordinator.claim(10)
        await coordinator.events(EventBatch(run.key, 1, [run.key.run_id.encode()] * 30000))

asyncio.run(main())
"""


def test_the_flags_of_a_shared_descriptor_are_left_as_they_are() -> None:
    ours, theirs = os.pipe()
    with subprocess.Popen([sys.executable, "-c", RELAY], stdin=subprocess.PIPE, stdout=theirs) as relay:
        assert relay.stdin is not None
        relay.stdin.write(with_agent(b'{"run_id":"run_1"}'))
        relay.stdin.close()
        written = 0
        while written < 6 * 30000:
            written += len(os.read(ours, 65536))
            assert os.get_blocking(theirs)
        assert relay.wait(20) == 0
    os.close(ours)
    os.close(theirs)
