#!/usr/bin/env python3
"""Says that it can resume, and announces no session that could be gone on with."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(resume=True)
speaker.start()
speaker.result("no JSON")
