#!/usr/bin/env python3
"""It says an event twice, and then one that should have come before."""

import json

from speaking import Speaker, write  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
event = speaker.event("log", level="info", message="once")
write(2 * (json.dumps(event).encode() + b"\n"))
speaker.seq = 0
speaker.say("log", level="info", message="from before")
speaker.seq = 2
speaker.result()
