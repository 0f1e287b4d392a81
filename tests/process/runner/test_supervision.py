"""Many executors on one event loop in one thread."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from ao_protocol.events import Event, Result
from ao_protocol.framing import encode_line
from ao_protocol.wire import ExecutorIdentity
from ao_runner.discovery import Executor
from ao_runner.processes.spawn import Child
from ao_runner.run_events import Relayed, RunIdentity
from ao_runner.runs.conversation import Conversation
from ao_runner.runs.run_request import RunRequest, invocation_of
from ao_runner.runs.supervision import Supervision
from ao_runner.store.records import Run, Session, timestamp
from tests.process.lifeline.leftovers import processes_in
from tests.process.runner.performing import MINIATURES, PATIENT

MANY = 30
EXECUTOR = Executor("answers", MINIATURES / "answers_at_once.py")
ENVIRON = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


class Sink:
    """Takes events; it is full as long as a test wants it to be."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.is_full = False
        self.waiting: list[Callable[[], None]] = []
        self.was_asked = asyncio.Event()

    def relay(self, batch: Sequence[Relayed]) -> None:
        self.events += [item.event for item in batch]

    def when_room(self, callback: Callable[[], None]) -> None:
        self.waiting.append(callback)
        self.was_asked.set()


def supervision_of(child: Child, number: int, project: Path, sink: Sink) -> Supervision:
    session = Session(f"ses_{number}", "now", EXECUTOR.name, str(EXECUTOR.path), str(project), {"name": "a"})
    run = Run(f"run_{number}", session.session_id, "start", {"prompt": f"number {number}"}, "now")
    identity = RunIdentity(run.run_id, session.session_id, ExecutorIdentity(name="x", version="1"))
    request = RunRequest(session, run, EXECUTOR, ENVIRON, grace_periods=PATIENT)
    child.stdin.send(encode_line(invocation_of(request, session, "3.0", has_inputs=False)))
    return Supervision(child, Conversation(identity, 1024 * 1024, timestamp), sink)


def test_one_thread_supervises_many_runs(tmp_path: Path) -> None:
    async def perform_all() -> list[Supervision]:
        supervisions = []
        with ExitStack() as stack:
            async with asyncio.TaskGroup() as group:
                for number in range(MANY):
                    child = stack.enter_context(Child([str(EXECUTOR.path)], ENVIRON, tmp_path))
                    supervision = supervision_of(child, number, tmp_path, Sink())
                    supervisions.append(supervision)
                    group.create_task(supervision.perform())
        assert threading.active_count() == threads
        return supervisions

    threads = threading.active_count()
    answers = [supervision.conversation.terminal for supervision in asyncio.run(perform_all())]

    assert [answer.result_text for answer in answers if isinstance(answer, Result)] == [
        f"number {number}" for number in range(MANY)
    ]
    assert processes_in(tmp_path) == []


def test_an_executor_waits_while_nobody_has_room_for_its_events(tmp_path: Path) -> None:
    flood = MINIATURES / "floods_events.py"

    async def perform() -> tuple[int, int, int]:
        sink = Sink()
        with Child([str(flood)], ENVIRON, tmp_path) as child:
            supervision = supervision_of(child, 1, tmp_path, sink)
            sink.is_full = True
            async with asyncio.TaskGroup() as group:
                group.create_task(supervision.perform())
                await sink.was_asked.wait()
                taken = len(sink.events)
                sink.is_full = False
                sink.waiting.pop()()
        return taken, len(sink.events), sink.events[-1].envelope.seq

    taken, in_all, last_seq = asyncio.run(perform())
    assert taken < in_all
    assert in_all == last_seq


def test_an_executor_that_says_everything_at_once_and_stays_is_told_that_its_run_is_over(tmp_path: Path) -> None:
    names = {"session_id": "ses_1", "run_id": "run_1", "timestamp": "2026-01-01T00:00:00Z"}
    executor = {"name": "x", "version": "1"}
    started = {"event_type": "run_started", **names, "seq": 1, "schema_version": "3.0", "executor": executor}
    result = {
        "event_type": "result",
        **names,
        "seq": 2,
        "result_text": "all",
        "result_data": None,
        "stop_reason": "end",
    }
    said = tmp_path / "said"
    said.write_bytes(encode_line(started) + encode_line(result))

    async def perform() -> Supervision:
        with Child(["/bin/sh", "-c", f"read -r invocation; cat {said}; cat >/dev/null"], ENVIRON, tmp_path) as child:
            supervision = supervision_of(child, 1, tmp_path, Sink())
            async with asyncio.timeout(60):
                await supervision.perform()
        return supervision

    supervision = asyncio.run(perform())
    assert supervision.ending("").exit_code == 0
    assert isinstance(supervision.conversation.terminal, Result)
