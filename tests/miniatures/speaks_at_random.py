#!/usr/bin/env python3
"""Writes events with odd values, chosen by the seed that its prompt is, and ends well if nobody minds."""

import json
import random
from typing import Any

from speaking import Speaker, write  # type: ignore[import-not-found]  # a script finds its own folder

ODD: list[Any] = [
    "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00.000000Z", "2016-12-31T23:59:60Z", "0001-01-01T00:00:00+23:59",
    "tomorrow", "", "\ud800", "\x00", "x" * 100_000, "../../x", None, True, -1, 0, 2**53 - 1, 2**63, 1e308, [], {},
    [[[]]], {"type": "text", "text": "\udfff"}, {"a": {"b": [1, "2"]}},
]  # fmt: skip
BODIES: list[tuple[str, dict[str, Any]]] = [
    ("message", {"message_id": "m", "role": "assistant", "content": [{"type": "text", "text": "Hi"}]}),
    ("tool_started", {"tool_call_id": "t", "tool_name": "Bash", "tool_input": {}}),
    ("tool_finished", {"tool_call_id": "t", "tool_name": "Bash", "status": "completed", "tool_output": "x"}),
    ("session_bound", {"executor_session_id": "s"}),
    ("usage", {"input_tokens": 1, "output_tokens": 1}),
    ("log", {"level": "info", "message": "m"}),
    ("vendor.odd", {"value": 1}),
]

speaker = Speaker()
chance = random.Random(speaker.invocation["parameters"]["prompt"])
speaker.start()
for _ in range(12):
    event_type, fields = chance.choice(BODIES)
    event = speaker.event(event_type, **fields)
    if chance.random() < 0.8:
        names = [name for name in event if name != "seq"]
        event[chance.choice(["timestamp", *names])] = chance.choice(ODD)
    write(json.dumps(event).encode() + b"\n")
speaker.result()
