#!/usr/bin/env python3
"""It starts, complains on stderr and leaves with exit code 1."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
raise RuntimeError("the database is on fire")
