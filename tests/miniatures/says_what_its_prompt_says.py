#!/usr/bin/env python3
"""Says the events that its prompt lists, each with its fields in the place of the usual ones, and then its result."""

import json

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(resume=True, cancel=True)
speaker.start()
speaker.say("session_bound", executor_session_id="mini-1", model="miniature-model")
for fields in json.loads(speaker.invocation["parameters"]["prompt"]):
    speaker.say(**{"event_type": "log", "level": "info", "message": "", **fields})
speaker.result()
