#!/usr/bin/env python3
"""An event is missing from its stream."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
speaker.event("log", level="info", message="lost")
speaker.result()
