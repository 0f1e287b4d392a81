"""A real `ao worker` for benchmarks: its home, its process, runs in its queue, and what it used."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ao_runner.runs.submission import new_run_id, new_session_id
from ao_runner.store.ownership import notify
from ao_runner.store.records import Run, Session, timestamp
from ao_runner.store.sqlite_store import SqliteStore

AO = str(Path(sys.executable).with_name("ao"))

SHELL: Final = r"""#!/bin/sh
if [ "$1" = describe ]; then
    echo '{"schema_versions":["3.0"],"executor":{"name":"shell","version":"1"},"capabilities":{"cancel":true}}'
    exit 0
fi
read -r invocation
after=${invocation#*\"run_id\":\"}; run=${after%%\"*}
after=${invocation#*\"session_id\":\"}; session=${after%%\"*}
say() {
    ids="\"session_id\":\"$session\",\"run_id\":\"$run\",\"seq\":$2"
    echo "{\"event_type\":\"$1\",$ids,\"timestamp\":\"2026-01-01T00:00:00Z\",$3}"
}
say run_started 1 '"schema_version":"3.0","executor":{"name":"shell","version":"1"}'
"""
"""The beginning of an executor that costs next to nothing, so that what is left is the worker's."""


class Bench:
    """One worker and the store that it shares with this process."""

    def __init__(self, home: Path, store: SqliteStore, process: "subprocess.Popen[bytes]") -> None:
        self.home, self.store, self.process = home, store, process

    def submit(self, profile: str, count: int = 1, run_id: str | None = None, **parameters: Any) -> list[str]:
        run_ids = []
        for _ in range(count):
            session = Session(new_session_id(), timestamp(), profile, profile, str(self.home), {"name": "agent"})
            run = Run(run_id or new_run_id(), session.session_id, "start", {"prompt": "hi", **parameters}, timestamp())
            self.store.sessions.add(session)
            self.store.queue.add(replace(run, profile=profile))
            run_ids.append(run.run_id)
        notify(self.home)
        return run_ids

    def await_end(self, run_ids: list[str], seconds: float = 120.0) -> dict[str, str]:
        """Return how each run ended."""
        query = (
            "SELECT run_id, status FROM runs WHERE status NOT IN ('queued', 'running')"
            " AND run_id IN (SELECT value FROM json_each(?))"
        )
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ended = dict(self.store.connection.execute(query, (json.dumps(run_ids),)).fetchall())
            if len(ended) == len(run_ids):
                return ended
            time.sleep(0.001)
        raise TimeoutError(f"{len(run_ids)} runs did not end within {seconds} s")

    def resident_bytes(self) -> int:
        """Return the worker's own memory: what it does not share with other processes."""
        rollup = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Private_"))

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))


@contextmanager
def working(home: Path, *options: str, profiles: dict[str, str] | None = None) -> Iterator[Bench]:
    """Yield a worker that takes runs; profiles are the texts of their files."""
    (home / "profiles").mkdir(parents=True, exist_ok=True)
    for name, text in (profiles or {}).items():
        (home / "profiles" / f"{name}.yaml").write_text(text)
    serving = [word for name in (profiles or {}) for word in ("--profile", name)]
    with SqliteStore(home) as store, (home / "worker.log").open("wb") as log:
        command = [AO, "worker", "--home", str(home), *serving, *options]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log) as process:
            try:
                until = time.monotonic() + 30
                while b"worker started" not in (home / "worker.log").read_bytes() and time.monotonic() < until:
                    time.sleep(0.01)
                yield Bench(home, store, process)
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
