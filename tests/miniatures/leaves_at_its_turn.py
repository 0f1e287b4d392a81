#!/usr/bin/env python3
"""Stays after its run, reads the turn, and leaves without a word, with the exit code that its first prompt is."""

import sys

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(multi_turn=True, resume=True)
speaker.start()
speaker.result(speaker.invocation["mode"])
if speaker.read_line():
    sys.exit(int(speaker.invocation["parameters"]["prompt"]))
