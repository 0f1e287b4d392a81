"""Runs that are kept in memory alone, so that many can be performed at once: real executors, and no store."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ao_protocol.events import Failure, Result, Terminal
from ao_protocol.lifecycle import RunLifecycle
from ao_runner.discovery import Executor
from ao_runner.run_events import Relayed
from ao_runner.runs.attempt import Mark
from ao_runner.runs.run_request import RunRequest
from ao_runner.runs.submission import new_run_id, new_session_id
from ao_runner.store.records import Run, RunRecord, Session
from tests.process.runner.performing import MINIATURES


@dataclass
class Memory:
    """A journal that remembers. `react` hears of every mark, `hear` of every event."""

    react: Callable[[Mark], None] = lambda _: None
    hear: Callable[[Relayed], None] = lambda _: None
    events: list[Relayed] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    record: RunRecord | None = None
    is_full: bool = False

    def begin(self) -> None:
        assert self.events == []

    def mark(self, what: Mark) -> None:
        self.marks.append(what)
        self.react(what)

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def relay(self, batch: Sequence[Relayed]) -> None:
        for item in batch:
            self.events.append(item)
            self.hear(item)

    def when_room(self, callback: Callable[[], None]) -> None:
        callback()

    def end(self, record: RunRecord) -> Terminal:
        self.record = record
        body = self.events[-1].event.body
        assert isinstance(body, Result | Failure)
        return body


def order_of(miniature: str, project: Path, **settings: Any) -> RunRequest:
    """Return the order for a run of a miniature; `parameters` are the run's."""
    executor = Executor(miniature, MINIATURES / miniature)
    parameters = settings.pop("parameters", {"prompt": "hello"})
    session = Session(new_session_id(), "now", executor.name, str(executor.path), str(project), {"name": "agent"})
    run = Run(new_run_id(), session.session_id, "start", parameters, "now")
    return RunRequest(session, run, executor, os.environ, **settings)


def check_whole(memory: Memory) -> None:
    """Check what holds for every run: it begins, `seq` has no gap, and it ends exactly once, with its last event."""
    lifecycle = RunLifecycle(None, None)
    for item in memory.events:
        lifecycle.receive(item.document)
    lifecycle.end()
    assert [item.seq for item in memory.events] == list(range(1, len(memory.events) + 1))
    assert [item.event_type in {"result", "failure"} for item in memory.events].count(True) == 1
    assert memory.events[-1].event_type in {"result", "failure"}
    assert memory.record is not None
