"""The ends of runs whose worker died, out of what its outbox knows."""

import json
from pathlib import Path
from typing import Any

from ao_runner.outbox.outbox import Outbox
from ao_runner.run_events import RunKey
from ao_runner.runs.lost_runs import RunSummary
from ao_runner.worker.delivery import end_unended

KEY = RunKey("run_1", 1)
NOTE = RunSummary(session_id="ses_1").to_note()


def left_behind(folder: Path) -> list[dict[str, Any]]:
    """Return what the next worker delivers."""
    with Outbox(folder) as outbox:
        assert end_unended(outbox) == [KEY]
        outbox.sync()
        batch = outbox.next_batch(KEY)
        assert batch is not None
        return [json.loads(line) for line in batch.lines]


def line(event_type: str, seq: int, **fields: Any) -> bytes:
    return json.dumps(
        {"event_type": event_type, "session_id": "ses_1", "run_id": "run_1", "seq": seq, **fields}
    ).encode()


def test_a_run_that_began_and_said_nothing_ends_all_the_same(tmp_path: Path) -> None:
    with Outbox(tmp_path) as outbox:
        outbox.expect(KEY, NOTE)

    events = left_behind(tmp_path)

    assert [(event["event_type"], event["seq"], event["session_id"]) for event in events] == [
        ("run_started", 1, "ses_1"),
        ("failure", 2, "ses_1"),
    ]
    assert events[-1]["error"]["type"] == "attempt_lost"
    assert events[-1]["error"]["details"] == {"last_seq": 0}


def test_tool_calls_that_are_open_are_closed_also_when_their_events_are_gone(tmp_path: Path) -> None:
    started = line("run_started", 1, schema_version="3.0", executor={"name": "x", "version": "1"})
    tool = line("tool_started", 2, tool_call_id="t1", tool_name="Bash")
    with Outbox(tmp_path) as outbox:
        outbox.expect(KEY, NOTE)
        outbox.append(KEY, 1, [started, tool])
        outbox.sync()
        outbox.acknowledge(KEY, 2, RunSummary().after([started, tool]).to_note())

    events = left_behind(tmp_path)

    assert [(event["event_type"], event["seq"]) for event in events] == [("tool_finished", 3), ("failure", 4)]
    assert events[0]["tool_call_id"] == "t1"
    assert events[-1]["error"]["details"] == {"last_seq": 2}
