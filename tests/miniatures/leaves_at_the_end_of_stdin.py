#!/usr/bin/env python3
"""It never hears a cancel line, but the end of stdin makes it leave without a word."""

import sys

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(cancel=True)
speaker.start()
while speaker.read_line():
    pass
sys.exit(1)
