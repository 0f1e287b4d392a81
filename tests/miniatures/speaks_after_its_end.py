#!/usr/bin/env python3
"""It sends a message after its result."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
speaker.result()
speaker.say("log", level="info", message="by the way")
