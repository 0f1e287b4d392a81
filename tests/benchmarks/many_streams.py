"""Whether one worker keeps up with many executors that each stream at a steady rate, and that no event is lost.

usage: python -m tests.benchmarks.many_streams [--executors N] [--rate R] [--events M]

Prints JSON. Needs a C compiler as `cc`: an executor in C costs 0.3 MB and little of the processor. All executors wait
until every run has begun, then each writes M events of some 200 bytes at R a second, beginning within two seconds, and
ends. `events_per_second` is of all together, from that moment to the last stored result; `wanted` is N times R.
`executors_cpu_seconds` contains the processes that the worker puts around executors.
"""

import argparse
import json
import os
import platform
import subprocess
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from tests.benchmarks.idle_runs import await_running
from tests.benchmarks.working import working

STREAM = r"""
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char invocation[1 << 20], run[64], session[64];
static struct timespec due;

static void say(const char *type, int seq, const char *fields) {
    printf("{\"event_type\":\"%s\",\"session_id\":\"%s\",\"run_id\":\"%s\",\"seq\":%d,"
           "\"timestamp\":\"2026-01-01T00:00:00Z\",%s}\n", type, session, run, seq, fields);
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc > 1)
        return puts("{\"schema_versions\":[\"3.0\"],\"executor\":{\"name\":\"stream\",\"version\":\"1\"}}") < 0;
    if (!fgets(invocation, sizeof invocation, stdin)) return 64;
    sscanf(strstr(invocation, "\"run_id\":\"") + 10, "%63[^\"]", run);
    sscanf(strstr(invocation, "\"session_id\":\"") + 14, "%63[^\"]", session);
    say("run_started", 1, "\"schema_version\":\"3.0\",\"executor\":{\"name\":\"stream\",\"version\":\"1\"}");
    if (open(GATE, O_RDONLY) < 0) return 1;  /* returns once somebody opens it for writing */
    clock_gettime(CLOCK_MONOTONIC, &due);
    due.tv_sec++, due.tv_nsec = getpid() * 7919L % 1000000000;  /* not all at the same moment */
    for (int seq = 2; seq < EVENTS; seq++) {
        if ((due.tv_nsec += 1000000000 / RATE) >= 1000000000) due.tv_sec++, due.tv_nsec -= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
        say("message_delta", seq, "\"message_id\":\"m1\",\"role\":\"assistant\",\"content\":[{\"text\":\" of\"}]");
    }
    say("result", EVENTS, "\"result_text\":\"done\",\"result_data\":null,\"stop_reason\":\"end_turn\"");
}
"""


def cpu_seconds_below(process_id: int) -> float:
    """Return what all descendants of a process have used, those included that have ended and were waited for."""
    parents, used = {}, {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit():
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                used[int(entry.name)] = sum(map(int, fields[11:15]))
    below = [process_id]
    for above in below:
        below += [child for child, parent in parents.items() if parent == above]
    return sum(used[child] for child in below[1:]) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executors", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=50, help="events a second of each executor")
    parser.add_argument("--events", type=int, default=3000, help="of each executor, the first and the last included")
    given = parser.parse_args()
    count, rate, events = given.executors, given.rate, given.events
    with tempfile.TemporaryDirectory() as folder:
        source, executor, gate = (Path(folder) / name for name in ("stream.c", "stream", "gate"))
        source.write_text(STREAM)
        os.mkfifo(gate)
        defined = [f'-DGATE="{gate}"', f"-DRATE={rate}", f"-DEVENTS={events}"]
        subprocess.run(["cc", "-O1", "-o", executor, *defined, source], check=True)  # noqa: S607  # of the machine
        profiles = {"stream": f"executor: {executor}\n"}
        with working(Path(folder) / "home", "--concurrency", str(count), profiles=profiles) as bench:
            runs = bench.submit("stream", count)
            await_running(bench, count)
            used, of_others = bench.cpu_seconds(), cpu_seconds_below(bench.process.pid)
            began = time.perf_counter()
            with gate.open("wb"):
                ended = bench.await_end(runs, 60 + 20 * events / rate)
            seconds, memory = time.perf_counter() - began, bench.resident_bytes()
            used = bench.cpu_seconds() - used
            of_others = cpu_seconds_below(bench.process.pid) - of_others
            sessions = bench.store.connection.execute("SELECT session_id FROM runs").fetchall()
            kept = [[event.seq for event in bench.store.events.of_session(session)] for (session,) in sessions]
    figures = {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "executors": count,
        "completed": list(ended.values()).count("completed"),
        "events_each": events,
        "events_lost": count * events - sum(map(len, kept)),
        "in_order": all(seqs == list(range(1, events + 1)) for seqs in kept),
        "wanted_events_per_second": count * rate,
        "events_per_second": round(count * events / seconds),
        "seconds": round(seconds, 1),
        "worker_cpu_seconds": round(used, 2),
        "worker_microseconds_per_event": round(used / (count * events) * 1e6, 2),
        "executors_cpu_seconds": round(of_others, 2),
        "worker_mebibytes_afterwards": round(memory / 2**20, 1),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
