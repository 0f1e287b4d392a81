#!/usr/bin/env python3
"""It hears that it is cancelled, and has a result all the same."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(cancel=True)
speaker.start()
speaker.read_line()
speaker.result("it was ready")
