"""Where the time goes between an executor's stdout and a batch of lines for the outbox.

Run `python tests/benchmarks/relay.py`; it prints JSON. Another process writes events of 200 bytes into a pipe; each
stage does what the one before it does, and one thing more. `events_per_second` is by the clock, with the writer on
another core; `microseconds` is this process's own time for an event, `added` what the stage adds to it. All are the
best of several. `parse_event alone` builds the models of each event, which the runner does for few of them.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from ao_protocol.events import check_event, parse_event
from ao_protocol.framing import LineSplitter, decode_object
from ao_protocol.lifecycle import RunLifecycle
from ao_protocol.redaction import NO_SECRETS, Redactor
from ao_protocol.wire import ExecutorIdentity
from ao_runner.outbox.outbox import Outbox
from ao_runner.run_events import RunIdentity, RunKey
from ao_runner.runs.conversation import Conversation
from ao_runner.store.records import Run, Session
from ao_runner.store.sqlite_store import SqliteStore

EVENTS: Final = 100_000
REPEAT: Final = 5
CHUNK_BYTES: Final = 256 * 1024
SESSION, RUN = "ses_0123456789abcdef", "run_0123456789abcdef"
IDENTITY: Final = RunIdentity(RUN, SESSION, ExecutorIdentity(name="x", version="1"))
KEY: Final = RunKey(RUN, 1)
SECRETS: Final = Redactor({"KEY": "sk-ant-api03-" + "aZ3x_Q9-" * 12, "TOKEN": "ghp_" + "kIKF438k" * 4})


def line(event_type: str, seq: int, **fields: Any) -> bytes:
    envelope = {"session_id": SESSION, "run_id": RUN, "seq": seq, "timestamp": "2026-01-10T12:00:00Z"}
    return json.dumps({"event_type": event_type, **envelope, **fields}, separators=(",", ":")).encode()


STARTED: Final = line("run_started", 1, schema_version="3.0", executor={"name": "x", "version": "1"})


def delta(seq: int) -> bytes:
    return line("message_delta", seq, message_id="m1", role="assistant", content=[{"type": "text", "text": " of"}])


def deltas_with_escapes(seq: int) -> bytes:
    content = [{"type": "text", "text": '\n"a"'}]
    return line("message_delta", seq, message_id="m1", role="assistant", content=content)


def deltas_with_times(seq: int) -> bytes:
    return delta(seq).replace(b"12:00:00Z", b"12:00:00.%06dZ" % seq)


def deltas_taking_turns(seq: int) -> bytes:
    return delta(seq).replace(b'"m1"', b'"m%d"' % (seq % 2))


def tools(seq: int) -> bytes:
    call = {"tool_call_id": f"t{seq // 2}", "tool_name": "Bash"}
    if seq % 2 == 0:
        return line("tool_started", seq, **call, tool_input={"command": "ls"})
    return line("tool_finished", seq, **call, tool_output="a b c", status="completed")


def chunks(fd: int) -> Iterator[bytes]:
    while chunk := os.read(fd, CHUNK_BYTES):
        yield chunk


def read(fd: int) -> None:
    for _ in chunks(fd):
        pass


def split(fd: int) -> None:
    lines = LineSplitter(1024 * 1024)
    for chunk in chunks(fd):
        lines.feed(chunk)


def judge(fd: int) -> None:
    """Decoded, valid, in order, of this run, tool calls paired."""
    lines, lifecycle = LineSplitter(1024 * 1024), RunLifecycle(RUN, SESSION)
    for chunk in chunks(fd):
        for found in lines.feed(chunk):
            document = decode_object(found)  # type: ignore[arg-type]  # none is too long
            check_event(document)
            lifecycle.receive(document)


def converse(fd: int, redactor: Redactor) -> None:
    conversation = Conversation(IDENTITY, 1024 * 1024, lambda: "2026-01-10T12:00:00Z", redactor=redactor)
    count = 0
    for chunk in chunks(fd):
        batch = list(conversation.receive(chunk))
        b"\n".join([item.line for item in batch])
        count += len(batch)
    if count != EVENTS or conversation.problems:
        raise SystemExit(f"{count} of {EVENTS} events; {conversation.problems}")


def spool(fd: int) -> None:
    """As a worker: every group of events is on the disk, in files, before it counts."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, Outbox(Path(folder)) as outbox:
        for _ in spooled(fd, outbox):
            pass


def store(fd: int) -> None:
    """As a worker with a local coordinator that keeps up: delivered out of the outbox into SQLite."""
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd()) as folder,
        Outbox(Path(folder) / "outbox") as outbox,
        SqliteStore(Path(folder)) as kept,
    ):
        kept.sessions.add(Session(SESSION, "now", "x", "x", folder, {}))
        kept.runs.begin(Run(RUN, SESSION, "start", {}, "now"), "owner")
        for _ in spooled(fd, outbox):
            while (batch := outbox.next_batch(KEY, max_events=5000)) is not None:
                kept.events.add(RUN, batch.first_seq, batch.lines)
                outbox.acknowledge(KEY, batch.last_seq)


def spooled(fd: int, outbox: Outbox) -> Iterator[None]:
    conversation = Conversation(IDENTITY, 1024 * 1024, lambda: "2026-01-10T12:00:00Z", redactor=SECRETS)
    due_at = 0.0
    for chunk in chunks(fd):
        if batch := list(conversation.receive(chunk)):
            outbox.append(KEY, batch[0].seq, [item.line for item in batch])
        if time.monotonic() >= due_at:
            outbox.sync()
            due_at = time.monotonic() + 0.005
            yield
    outbox.sync()
    yield


STAGES: Final[dict[str, Callable[[int], None]]] = {
    "read": read,
    "+ split": split,
    "+ judge": judge,
    "+ conversation and batch": partial(converse, redactor=NO_SECRETS),
    "+ redaction of two secrets": partial(converse, redactor=SECRETS),
    "+ spool": spool,
    "+ store": store,
}


def once(stage: Callable[[int], None], path: Path) -> tuple[float, float]:
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as writer:  # noqa: S607  # a benchmark
        assert writer.stdout is not None
        began_at, cpu = time.perf_counter(), time.process_time()
        stage(writer.stdout.fileno())
        return time.perf_counter() - began_at, time.process_time() - cpu


def measured(event: Callable[[int], bytes]) -> dict[str, Any]:
    lines = [STARTED, *(event(seq) for seq in range(2, EVENTS + 1))]
    results: dict[str, Any] = {"bytes_per_event": len(lines[100])}
    before = alone = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events"
        path.write_bytes(b"\n".join(lines) + b"\n")
        for name, stage in STAGES.items():
            times = [once(stage, path) for _ in range(REPEAT)]
            cpu = min(cpu for _, cpu in times) / EVENTS * 1e6
            alone = alone or cpu
            results[name] = {
                "events_per_second": round(EVENTS / min(wall for wall, _ in times)),
                "microseconds": round(cpu, 2),
                "added": round(cpu - before, 2),
                "times_read": round(cpu / alone, 1),
            }
            before = cpu
    results["parse_event alone"] = {"microseconds": round(parse_event_microseconds(lines[1:10_001]), 2)}
    return results


def parse_event_microseconds(lines: list[bytes]) -> float:
    best = float("inf")
    for _ in range(REPEAT):
        began_at = time.process_time()
        for found in lines:
            parse_event(found)
        best = min(best, time.process_time() - began_at)
    return best / len(lines) * 1e6


if __name__ == "__main__":
    kinds = {
        "message_delta": delta,
        "message_delta with escapes": deltas_with_escapes,
        "message_delta, each at another time": deltas_with_times,
        "message_delta of two messages in turn": deltas_taking_turns,
        "tool events": tools,
    }
    print(json.dumps({name: measured(event) for name, event in kinds.items()}, indent=2))
