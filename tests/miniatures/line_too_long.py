#!/usr/bin/env python3
"""One of its events is longer than an event may be."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
speaker.say("log", level="info", message="x" * (2 * 1024 * 1024))
speaker.result()
