#!/usr/bin/env python3
"""No fault: it says COUNT events, one each SECONDS (the prompt is "COUNT SECONDS"), and notes outside what it flushed.

The notes are files in its folder: RUN.flushed has the `seq` of every event that was flushed, RUN.starts a line for each
time that the run was performed, and SESSION.order a line for each beginning and end of a run.
"""

import json
import select
import sys
from pathlib import Path

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder


def note(name: str, line: object) -> None:
    with Path(name).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


speaker = Speaker(cancel=True, resume=True)
run_id, session_id = speaker.invocation["run_id"], speaker.invocation["session_id"]
count, seconds = speaker.invocation["parameters"]["prompt"].split()
note(f"{run_id}.starts", "start")
note(f"{session_id}.order", f"begin {run_id}")
speaker.start()
note(f"{run_id}.flushed", speaker.seq)
speaker.say("session_bound", executor_session_id=f"inner-{session_id}")
note(f"{run_id}.flushed", speaker.seq)
for number in range(int(count)):
    text = [{"type": "text", "text": f"number {number} {'x' * 50}"}]
    speaker.say("message", message_id=f"msg_{number}", role="assistant", content=text)
    note(f"{run_id}.flushed", speaker.seq)
    if select.select([0], [], [], float(seconds))[0]:
        if line := speaker.read_line():
            speaker.cancelled(f"asked because of: {json.loads(line).get('reason')}")
        sys.exit(130)
note(f"{session_id}.order", f"end {run_id}")
speaker.result()
