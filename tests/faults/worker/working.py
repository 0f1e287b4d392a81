"""Workers as processes of their own, with a home of their own, and what is found there afterwards."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from ao_runner.outbox.outbox import Outbox
from ao_runner.runs.submission import new_session_id
from ao_runner.store.records import Run, RunState, Session, timestamp
from ao_runner.store.sqlite_store import SqliteStore
from tests.process.fork_server import run_ao, start_ao
from tests.process.lifeline.leftovers import processes_in

MINIATURES = Path(__file__).parents[2] / "miniatures"
NOTING = "notes_what_it_flushed"
SECONDS = 60.0
"""Longer than anything takes that goes well, on a busy machine, too."""


def until(condition: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
    """Wait until something is so.

    Raises:
        TimeoutError: it never was.
    """
    ends_at = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends_at:
            raise TimeoutError(what)
        select.select([], [], [], 0.01)


@dataclass
class Working:
    """A worker that runs. Its log is read by `heard`, `said` and `leave` only."""

    process: subprocess.Popen[bytes]
    log: list[dict[str, Any]] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    """Lines on stderr that are no log."""
    _unread: bytes = b""

    def heard(self, event: str, times: int = 1) -> Self:
        """Wait until the log says something so many times."""
        ends_at = time.monotonic() + SECONDS
        while self.said(event) < times:
            if not self._read(ends_at - time.monotonic()):
                said = [entry["event"] for entry in self.log][-20:]
                raise AssertionError(f"{event!r} was not heard {times} times: {said} {self.other[-20:]}")
        return self

    def said(self, event: str) -> int:
        """Return how often the log has said something."""
        return sum(event in entry["event"] for entry in self.log)

    def signal(self, number: int) -> Self:
        self.process.send_signal(number)
        return self

    def run_for(self, seconds: float) -> Self:
        """Let it work for a time that does not matter."""
        ends_at = time.monotonic() + seconds
        while self._read(ends_at - time.monotonic()):
            pass
        return self

    def stopped(self) -> Self:
        """Stop it and wait until it stands still."""
        self.signal(signal.SIGSTOP)
        state = Path(f"/proc/{self.process.pid}/stat")
        until(lambda: state.read_text(encoding="utf-8").rpartition(") ")[2].startswith("T"), "it stands still")
        return self

    def killed(self) -> Self:
        """Kill it and wait for its end."""
        self.signal(signal.SIGKILL)
        assert self.left() == -signal.SIGKILL
        return self

    def left(self) -> int:
        """Wait until it has left and return its exit code."""
        ends_at = time.monotonic() + SECONDS
        while self._read(ends_at - time.monotonic()):
            pass
        return self.process.wait(SECONDS)

    def _read(self, seconds: float) -> bool:
        stderr = self.process.stderr
        assert stderr is not None
        if not select.select([stderr], [], [], max(0.0, seconds))[0]:
            return False
        chunk = os.read(stderr.fileno(), 65536)
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"{"):
                self.log.append(json.loads(line))
            else:
                self.other.append(line.decode())
        return bool(chunk)


@dataclass(frozen=True)
class Home:
    """A home, and the folder that its runs work in."""

    folder: Path

    @classmethod
    def below(cls, folder: Path) -> Self:
        home = cls(folder / "home")
        home.project.mkdir()
        return home

    @property
    def project(self) -> Path:
        return self.folder.parent / "project"

    def store(self) -> SqliteStore:
        return SqliteStore(self.folder)

    def submit(
        self, count: int = 1, prompt: str = "10 0", executor: str = NOTING, profile: str | None = None
    ) -> list[str]:
        """Put runs into the queue, each of a session of its own, and return their ids."""
        return [self.submit_to(f"ses_{executor}_{number}", prompt, executor, profile) for number in range(count)]

    def submit_to(
        self, session_id: str, prompt: str, executor: str = NOTING, profile: str | None = None, mode: Any = "start"
    ) -> str:
        """Put a run of one session into the queue."""
        name = profile or str(MINIATURES / f"{executor}.py")
        with self.store() as store, store.transaction():
            if not [one for one in store.sessions.all() if one.session_id == session_id]:
                folder = str(self.project)
                store.sessions.add(Session(session_id, timestamp(), name, name, folder, {"name": "a"}, profile=name))
            run_id = f"run_{new_session_id()[4:]}"
            run = Run(run_id, session_id, mode, {"prompt": prompt}, timestamp(), "queued")
            store.queue.add(replace(run, profile=name))
        return run_id

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let nobody else write to the store."""
        with self.store() as store, store.transaction():
            yield

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return kept | {"AO_HOME": str(self.folder), "LANG": "C.UTF-8"}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "ao_runner", *arguments]

    @contextmanager
    def worker(self, *arguments: str, **options: Any) -> Iterator[Working]:
        """Start a worker; the block's end kills it if it still runs."""
        options = {"stderr": subprocess.PIPE, "env": self.environment(), "cwd": self.folder.parent, **options}
        with start_ao(["worker", "--log-format", "json", *arguments], **options) as process:
            try:
                yield Working(process)
            finally:
                process.kill()

    def drained(self, *arguments: str) -> Working:
        """Let a worker do all that is to be done; it has to leave as it should."""
        with self.worker(*arguments) as worker:
            self.finish(worker)
            return worker

    def finish(self, worker: Working) -> None:
        """Wait until every run is over; then the worker has to leave as it should."""
        worker.heard("worker started")
        until(lambda: not self.waiting(), "there are runs that are not over")
        assert worker.signal(signal.SIGTERM).left() == 0, worker.other

    def waiting(self) -> int:
        """Return how many runs are not over."""
        with self.store() as store:
            return len(store.runs.states("queued", "running"))

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Call another command of `ao`."""
        return run_ao(arguments, cwd=self.folder.parent, env=self.environment(), stdin=None, timeout=SECONDS)

    def states(self) -> list[RunState]:
        with self.store() as store:
            return store.runs.states()

    def outcomes(self) -> Mapping[str, int]:
        """Return how many runs ended how: `completed`, `attempt_lost` …"""
        return Counter(state.run.error_type or state.run.status for state in self.states())

    def events(self, run_id: str) -> list[dict[str, Any]]:
        """Return the events that are stored of a run."""
        with self.store() as store:
            (state,) = [state for state in store.runs.states() if state.run.run_id == run_id]
            return [json.loads(event.line) for event in store.events.of_session(state.run.session_id, run_id=run_id)]

    def noted(self, name: str) -> list[str]:
        """Return the lines of a note."""
        path = self.project / name
        return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []

    def flushed(self, run_id: str) -> int:
        """Return the `seq` of the last event that an executor has flushed, by its own account."""
        return int((self.noted(f"{run_id}.flushed") or ["0"])[-1])

    def durable(self) -> dict[str, int]:
        """Return the last `seq` that is durable of each run, in an outbox or the store, while no worker is there."""
        copy = self.folder.parent / "copies" / str(time.monotonic_ns())
        found = {state.run.run_id: state.last_seq for state in self.states()}
        if not (self.folder / "outboxes").exists():
            return found
        for place in shutil.copytree(self.folder / "outboxes", copy).glob("*/*/"):
            with Outbox(place) as outbox:
                for state in outbox.open_keys():
                    found[state.key.run_id] = max(state.durable_seq, found[state.key.run_id])
        return found

    def check(self, runs: Sequence[str], durable: Mapping[str, int] | None = None) -> None:
        """Check what holds whatever happened.

        Every run was begun once at most and ended once, what is stored of it is there once and in order, with all that
        was `durable`, and nobody is left.
        """
        states = {state.run.run_id: state for state in self.states()}
        for run_id in runs:
            events = self.events(run_id)
            assert [event["seq"] for event in events] == list(range(1, len(events) + 1)), run_id
            ends = [event["seq"] for event in events if event["event_type"] in {"result", "failure"}]
            assert ends == [len(events)], run_id
            assert states[run_id].run.status in {"completed", "failed", "cancelled"}, run_id
            assert len(self.noted(f"{run_id}.starts")) <= 1, run_id
            texts = [event["content"][0]["text"] for event in events if event["event_type"] == "message"]
            numbers = [text.split()[1] for text in texts]
            assert numbers == list(map(str, range(len(numbers)))), run_id
            assert len(events) >= (durable or {}).get(run_id, 0), run_id
        assert processes_in(self.project) == []
