#!/usr/bin/env python3
"""No fault: it goes on with its work while nobody listens, and opens the pipe `heard` when that took long enough."""

import select
import sys
from pathlib import Path

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder


def work() -> None:
    select.select([], [], [], 0.05)
    speaker.say("heartbeat", phase="model", last_progress_seq=1)


speaker = Speaker()
speaker.start()
speaker.say("heartbeat", phase="model", last_progress_seq=1)
sys.stderr.write("working\n")
sys.stderr.flush()
for _ in range(10):
    work()
with Path("heard").open("w"):
    pass
for _ in range(4):
    work()
speaker.result()
