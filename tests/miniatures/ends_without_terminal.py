#!/usr/bin/env python3
"""It starts and leaves with exit code 0."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
