#!/usr/bin/env python3
"""It writes ten megabytes to stderr before it answers."""

import sys

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
for number in range(10_000):
    sys.stderr.write(f"{number:06d} {'x' * 1000}\n")
sys.stderr.write("the last words\n")
sys.stderr.flush()
speaker.result()
