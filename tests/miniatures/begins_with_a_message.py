#!/usr/bin/env python3
"""It forgets run_started."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.say("message", message_id="m1", role="assistant", content=[{"type": "text", "text": "hi"}])
speaker.result("hi")
