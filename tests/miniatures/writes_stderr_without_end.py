#!/usr/bin/env python3
"""It writes as many megabytes to stderr as it is asked for, with hardly a line end, before it answers."""

import os

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
for _ in range(speaker.invocation["parameters"]["megabytes"]):
    os.write(2, b"x" * 1_000_000)
os.write(2, b"\nthe last words\n")
speaker.result()
