#!/usr/bin/env python3
"""It dies while a tool runs."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
speaker.say("tool_started", tool_call_id="t1", tool_name="Bash", tool_input={"command": "make"})
