#!/usr/bin/env python3
"""One of its events belongs to another run."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
speaker.say("log", level="info", message="not mine", run_id="run_other")
speaker.result()
