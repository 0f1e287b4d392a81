#!/usr/bin/env python3
"""No fault: it sends heartbeats until it is asked to leave."""

import json
import selectors
import sys

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(cancel=True)
speaker.start()
selector = selectors.DefaultSelector()
selector.register(0, selectors.EVENT_READ)
while not selector.select(0.05):
    speaker.say("heartbeat", phase="model", last_progress_seq=1)
reason = json.loads(speaker.read_line() or b"{}").get("reason")
speaker.cancelled(f"asked because of: {reason}")
sys.exit(130)
