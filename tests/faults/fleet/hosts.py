"""Hosts of one database: a worker of each as a process, runs of an executor in C, and what is found afterwards."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import psycopg

from ao_runner.runs.submission import new_run_id, new_session_id
from ao_runner.store.records import Run, Session, timestamp
from ao_runner.store.store import Store

SECONDS: Final = 60.0
"""Longer than anything takes that goes well."""

EXECUTOR: Final = r"""
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char invocation[1 << 20], run[64], session[64], note[512];

static void say(const char *type, int seq, const char *fields) {
    printf("{\"event_type\":\"%s\",\"session_id\":\"%s\",\"run_id\":\"%s\",\"seq\":%d,"
           "\"timestamp\":\"2026-01-01T00:00:00Z\",%s}\n", type, session, run, seq, fields);
    fflush(stdout);
}

int main(int argc, char **argv) {
    int events = 0, milliseconds = 0;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (argc > 1)
        return puts("{\"schema_versions\":[\"3.0\"],\"executor\":{\"name\":\"counts\",\"version\":\"1\"}}") < 0;
    if (!fgets(invocation, sizeof invocation, stdin)) return 64;
    sscanf(strstr(invocation, "\"run_id\":\"") + 10, "%63[^\"]", run);
    sscanf(strstr(invocation, "\"session_id\":\"") + 14, "%63[^\"]", session);
    sscanf(strstr(invocation, "\"prompt\":\"") + 10, "%d %d", &events, &milliseconds);
    snprintf(note, sizeof note, "%s/%s", NOTES, run);
    dprintf(open(note, O_WRONLY | O_CREAT | O_APPEND, 0600), "%ld.%09ld\n", now.tv_sec, now.tv_nsec);
    say("run_started", 1, "\"schema_version\":\"3.0\",\"executor\":{\"name\":\"counts\",\"version\":\"1\"}");
    for (int number = 0; number < events; number++) {
        struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
        nanosleep(&pause, NULL);
        char message[128];
        snprintf(message, sizeof message, "\"message_id\":\"m%d\",\"role\":\"assistant\","
                 "\"content\":[{\"type\":\"text\",\"text\":\"%d\"}]", number, number);
        say("message", number + 2, message);
    }
    say("result", events + 2, "\"result_text\":\"done\",\"result_data\":null,\"stop_reason\":\"end_turn\"");
}
"""
"""Notes the time of each start in a file of the run, then writes `prompt` = "EVENTS MILLISECONDS" numbered messages."""


@dataclass(frozen=True)
class Fleet:
    """What the hosts of one database share: the executor, its notes, and the prompt of each run."""

    folder: Path
    prompts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.notes.mkdir(parents=True)
        self.project.mkdir()
        source = self.folder / "counts.c"
        source.write_text(EXECUTOR)
        command = ["cc", "-O1", "-o", str(self.executor), f'-DNOTES="{self.notes}"', str(source)]
        subprocess.run(command, check=True)

    @property
    def executor(self) -> Path:
        return self.folder / "counts"

    @property
    def notes(self) -> Path:
        return self.folder / "notes"

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def submit(self, store: Store, prompts: Sequence[str]) -> list[str]:
        """Put runs into the queue in one transaction, each of a session of its own, and return their ids.

        Runs whose prompt is known may be absent from the store: if the connection was lost, nobody knows.
        """
        name, runs = str(self.executor), []
        for prompt in prompts:
            run = Run(new_run_id(), new_session_id(), "start", {"prompt": prompt}, timestamp(), "queued")
            self.prompts[run.run_id] = prompt
            runs.append(run)
        with store.transaction():
            for run in runs:
                store.sessions.add(Session(run.session_id, timestamp(), name, name, str(self.project), {"name": "a"}))
                store.queue.add(replace(run, profile=name))
        with suppress(Exception):  # a hint
            store.notify()
        return [run.run_id for run in runs]

    def started_at(self, run_id: str) -> list[float]:
        """Return when the executor was started for a run, by its own account."""
        path = self.notes / run_id
        return [float(line) for line in path.read_text().split()] if path.exists() else []

    def processes(self) -> list[int]:
        """Return the processes of the executor that are there."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and (entry / "exe").readlink() == self.executor:
                    found.append(int(entry.name))
        return found


@dataclass
class Host:
    """One host: its home, and its worker."""

    fleet: Fleet
    name: str
    url: str
    options: tuple[str, ...]
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def home(self) -> Path:
        return self.fleet.folder / self.name

    @property
    def log(self) -> Path:
        return self.fleet.folder / f"{self.name}.log"

    def start(self) -> None:
        """Start a worker; it goes on with what the one before has left."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        kept |= {"AO_HOME": str(self.home), "AO_HOST": self.name, "AO_STORE": self.url, "LANG": "C.UTF-8"}
        command = [sys.executable, "-m", "ao_runner", "worker", "--log-format", "json", *self.options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.fleet.folder, env=kept, stdin=subprocess.DEVNULL, stderr=log
            )

    def kill(self) -> None:
        """Kill the worker with SIGKILL, if there is one."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(SECONDS)
            self.process = None

    def leave(self) -> int:
        """Let the worker end as an operator does, and return its exit code: 0 if everything was delivered."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        exit_code, self.process = self.process.wait(SECONDS), None
        return exit_code

    def said(self, event: str) -> int:
        """Return how often the log of the host has said something."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        return sum(event in json.loads(line)["event"] for line in lines if line.startswith("{"))


def await_end(store: Store, seconds: float = SECONDS) -> None:
    """Wait until every run has ended.

    Raises:
        TimeoutError: They did not.
    """
    until = time.monotonic() + seconds
    while open_runs := store.fetch("SELECT run_id FROM runs WHERE status IN ('queued', 'running')"):
        if time.monotonic() > until:
            raise TimeoutError(f"{len(open_runs)} runs did not end, among them {open_runs[0][0]}")
        time.sleep(0.1)


def latencies(fleet: Fleet, store: Store, count: int) -> list[float]:
    """Return the seconds from the submission of each of some runs to the start of its executor, with idle slots."""
    seconds = []
    for _ in range(count):
        time.sleep(random.uniform(0.02, 0.12))  # polls come at every moment
        submitted_at = time.time()
        (run_id,) = fleet.submit(store, ["1 0"])
        await_end(store)
        seconds += [started_at - submitted_at for started_at in fleet.started_at(run_id)[:1]]
    return seconds


def broken_promises(fleet: Fleet, url: str, submitted: Sequence[str]) -> tuple[dict[str, list[str]], Counter[str]]:
    """Return the runs for which a promise is broken, by promise, and how many runs ended how."""
    broken: dict[str, list[str]] = {}
    outcomes: Counter[str] = Counter()
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT run_id, status, error_type FROM runs ORDER BY rowid").fetchall()
        statuses = {run_id: (status, error_type) for run_id, status, error_type in rows}
        for run_id, (status, error_type) in statuses.items():
            outcomes[error_type or status] += 1
            query = "SELECT seq, last_seq, line FROM events WHERE run_id = %s ORDER BY seq, position"
            batches = connection.execute(query, (run_id,)).fetchall()
            for promise in _broken_by(fleet, run_id, status, batches):
                broken.setdefault(promise, []).append(run_id)
    if lost := sorted(set(submitted) - statuses.keys()):
        broken["a submitted run is there"] = lost
    if left := fleet.processes():
        broken["no process of the executor is left"] = list(map(str, left))
    if refused := sorted(map(str, fleet.folder.glob("*/**/refused.jsonl"))):
        broken["no event is set aside"] = refused
    return broken, outcomes


def _broken_by(fleet: Fleet, run_id: str, status: str, batches: Sequence[tuple[Any, ...]]) -> list[str]:
    events = [json.loads(line) for _, _, lines in batches for line in lines.split("\n")]
    seqs = [seq for first, last, _ in batches for seq in range(first, last + 1)]
    ends = [event for event in events if event["event_type"] in {"result", "failure"}]
    said = [event["content"][0]["text"] for event in events if event["event_type"] == "message"]
    wanted = int(fleet.prompts[run_id].split()[0])
    starts = len(fleet.started_at(run_id))
    is_completed = status == "completed"
    how = [event.get("status", "completed") if event["event_type"] == "failure" else "completed" for event in ends]
    promises = {
        "a run has one terminal event, its last": len(ends) == 1 and ends == events[-1:],
        "the status agrees with the terminal event": how == [status],
        "events have consecutive numbers": seqs == list(range(1, len(events) + 1))
        and [event["seq"] for event in events] == seqs,
        "messages are there in their order": said == list(map(str, range(len(said)))) and len(said) <= wanted,
        "a completed run has all messages": not is_completed or len(said) == wanted,
        "an executor is started once for a run": starts == 1 if is_completed else starts <= 1,
    }
    return [promise for promise, holds in promises.items() if not holds]
