"""How many events of one executor a worker makes durable and delivers, and that none is lost.

usage: python -m tests.benchmarks.flood [--events N] [--secrets]

Prints JSON. The executor writes a prepared file of `message_delta`s, some 200 bytes each, to its stdout; with
`--secrets` its profile names two, which are looked for in all of them. `relayed` is how fast they came through up to
the terminal event, `stored` the same up to the run's end in the local store; `microseconds` is the worker's own time
for an event. `pipe_alone` is what reading the same bytes takes. `tests/benchmarks/relay.py` says where the time goes,
`tests/benchmarks/outbox.py` what the outbox alone does.
"""

import argparse
import json
import os
import platform
import subprocess
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ao_runner.runs.submission import new_run_id
from ao_runner.store.ownership import notify
from ao_runner.store.records import Run, Session, timestamp
from tests.benchmarks.working import working

FLOOD = """#!/bin/sh
if [ "$1" = describe ]; then
    echo '{{"schema_versions":["3.0"],"executor":{{"name":"flood","version":"1"}},"capabilities":{{}}}}'
    exit 0
fi
read -r invocation
exec cat {events}
"""
SECRETS = {"FLOOD_KEY": "sk-ant-api03-" + "aZ3x_Q9-" * 12, "FLOOD_TOKEN": "ghp_" + "kIKF438k" * 4}
SESSION = "ses_0123456789abcdef"


def write_events(path: Path, run_id: str, count: int) -> int:
    envelope = {"session_id": SESSION, "run_id": run_id}
    times = {"timestamp": "2026-01-10T12:00:00Z"}

    def line(event_type: str, seq: int, **fields: object) -> str:
        return json.dumps({"event_type": event_type, **envelope, "seq": seq, **times, **fields}, separators=(",", ":"))

    content = [{"type": "text", "text": " of"}]
    with path.open("w") as file:
        file.write(line("run_started", 1, schema_version="3.0", executor={"name": "flood", "version": "1"}) + "\n")
        for seq in range(2, count):
            file.write(line("message_delta", seq, message_id="m1", role="assistant", content=content) + "\n")
        end = line("result", count, result_text="done", result_data=None, stop_reason="end_turn")
        file.write(end + "\n")
    return path.stat().st_size


def read_alone(executor: Path) -> float:
    began = time.perf_counter()
    with subprocess.Popen([str(executor)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"{}\n")
        process.stdin.close()
        while os.read(process.stdout.fileno(), 256 * 1024):
            pass
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--secrets", action="store_true")
    given = parser.parse_args()
    count: int = given.events
    os.environ |= SECRETS
    with tempfile.TemporaryDirectory() as folder:
        events, executor, run_id = Path(folder) / "events.jsonl", Path(folder) / "flood", new_run_id()
        size = write_events(events, run_id, count)
        executor.write_text(FLOOD.format(events=events))
        executor.chmod(0o700)
        alone = min(read_alone(executor) for _ in range(3))
        profiles = {"flood": f"executor: {executor}\n" + (f"secrets: {[*SECRETS]}\n" if given.secrets else "")}
        with working(Path(folder) / "home", profiles=profiles) as bench:
            bench.store.sessions.add(Session(SESSION, timestamp(), "x", "x", folder, {"name": "agent"}))
            bench.store.queue.add(replace(Run(run_id, SESSION, "start", {"prompt": "x"}, timestamp()), profile="flood"))
            began, used = time.perf_counter(), bench.cpu_seconds()
            notify(bench.home)
            (status,) = bench.await_end([run_id], 600).values()
            stored = time.perf_counter() - began
            used = bench.cpu_seconds() - used
            time.sleep(0.5)
            record = bench.store.runs.find_record(run_id)
            kept = list(bench.store.events.of_session(SESSION))
            in_order = [event.seq for event in kept] == list(range(1, count + 1))
            memory = bench.resident_bytes()
    assert record is not None
    relayed = record.seconds["terminal"] - record.seconds["spawned"]
    print(
        json.dumps(
            {
                "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
                "python": platform.python_version(),
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "events": count,
                "bytes_per_event": round(size / count),
                "status": status,
                "events_lost": count - len(kept),
                "in_order": in_order,
                "secrets": len(SECRETS) if given.secrets else 0,
                "microseconds": round(used / count * 1e6, 2),
                "pipe_alone_events_per_second": round(count / alone),
                "relayed_events_per_second": round(count / relayed),
                "stored_events_per_second": round(count / stored),
                "relayed_against_pipe": round(relayed / alone, 1),
                "worker_mebibytes_afterwards": round(memory / 2**20, 1),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
