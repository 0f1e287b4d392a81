"""How the runner's tests perform runs: real processes, a real store, and a look at what is left behind."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ao_protocol.events import Failure, Result, Terminal
from ao_protocol.lifecycle import RunLifecycle
from ao_protocol.wire import JsonObject
from ao_runner.discovery import Executor
from ao_runner.processes.containment import lifelines, probe
from ao_runner.run_events import Relayed
from ao_runner.runs.attempt import ColdLauncher
from ao_runner.runs.journal import NeverFull, StoredJournal
from ao_runner.runs.run import perform_run
from ao_runner.runs.run_request import GracePeriods, RunRequest, StopRequests
from ao_runner.runs.submission import new_run_id, new_session_id
from ao_runner.store.ownership import own_runs
from ao_runner.store.records import Run, RunRecord, Session
from ao_runner.store.sqlite_store import SqliteStore
from tests.process.lifeline.leftovers import processes_in

MINIATURES = Path(__file__).parents[2] / "miniatures"
PATIENT = GracePeriods(30, 30, 30, 30, 30)
"""For processes that will do what they are asked to, however busy the machine is."""
IMPATIENT = GracePeriods(0.3, 0.3, 0.3, 0.3, 30)
"""For processes that will not."""


@dataclass
class Follower(NeverFull):
    """A listener that keeps what it is told, and may react to it."""

    react: Callable[[Relayed], None] = lambda _: None
    events: list[Relayed] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def on_event(self, relayed: Relayed) -> None:
        self.events.append(relayed)
        self.react(relayed)

    def on_note(self, note: str) -> None:
        self.notes.append(note)


@dataclass(frozen=True)
class Performed:
    """A run that is over."""

    terminal: Terminal
    events: list[Relayed]
    notes: list[str]
    record: RunRecord
    stored_lines: list[str]
    left_over: list[int]

    @property
    def types(self) -> list[str]:
        return [item.event.body.event_type for item in self.events]

    @property
    def failure(self) -> Failure:
        """How it failed."""
        assert isinstance(self.terminal, Failure), self.terminal
        return self.terminal

    @property
    def result(self) -> Result:
        """What came of it."""
        assert isinstance(self.terminal, Result), self.terminal
        return self.terminal


def perform(
    miniature: str,
    folder: Path,
    *,
    parameters: Mapping[str, Any] | None = None,
    blueprint: Mapping[str, Any] | None = None,
    contract: JsonObject | None = None,
    attachments: Sequence[JsonObject] = (),
    executor_path: Path | None = None,
    files: Mapping[str, str] | None = None,
    stop_on: str | None = None,
    stops_wanted: int = 1,
    stop_at_once: Literal["request", "fence"] | None = None,
    **order: Any,
) -> Performed:
    """Perform one run of a miniature, or of the executor at a path, in a folder with some files, and check it whole.

    With `stop_on`, the wish to stop comes with the first event of that type.
    """
    project = _project_with(files or {}, folder)
    executor = Executor(miniature, executor_path or MINIATURES / f"{miniature}.py")
    agent = {"name": "agent", **(blueprint or {})}
    config = order.pop("executor_config", {})
    session = Session(new_session_id(), "now", executor.name, str(executor.path), str(project), agent, config)
    started = dict(parameters or {"prompt": "hello"})
    run = Run(
        new_run_id(), session.session_id, "start", started, "now", contract=contract, attachments=tuple(attachments)
    )
    settings = {"environ": os.environ, "grace_periods": PATIENT, "max_event_bytes": 1024 * 1024, **order}
    stops = StopRequests()
    follower = Follower()
    wanted = [stop_on] * stops_wanted

    def react(relayed: Relayed) -> None:
        while wanted and relayed.event.body.event_type == wanted[0]:
            wanted.pop()
            stops.request()

    follower.react = react
    if stop_at_once is not None:
        getattr(stops, stop_at_once)()
    with SqliteStore(folder / "home") as store, own_runs(folder / "home") as owner:
        store.sessions.add(session)
        journal = StoredJournal(store, run, follower, owner)
        made = RunRequest(session=session, run=run, executor=executor, **settings)
        terminal = asyncio.run(_perform(made, journal, stops))
        record = store.runs.find_record(run.run_id)
        lines = [event.line for event in store.events.of_session(session.session_id)]
    assert record is not None
    performed = Performed(terminal, follower.events, follower.notes, record, lines, processes_in(project))
    check_whole(performed)
    return performed


async def _perform(order: RunRequest, journal: StoredJournal, stops: StopRequests) -> Terminal:
    with lifelines(probe(os.environ)) as lines:
        return await perform_run(order, journal, stops, ColdLauncher(lines))


def _project_with(files: Mapping[str, str], folder: Path) -> Path:
    project = folder / "project"
    project.mkdir()
    for name, text in files.items():
        (project / name).write_text(text, encoding="utf-8")
    return project


def check_whole(performed: Performed) -> None:
    """Check what holds for every run, whatever its executor did."""
    lifecycle = RunLifecycle(None, None)
    for item in performed.events:
        lifecycle.receive(item.document)
    lifecycle.end()
    assert [item.line.decode() for item in performed.events] == performed.stored_lines
    assert performed.events[-1].event.body == performed.terminal
    assert performed.left_over == []
