#!/usr/bin/env python3
"""Writes to stdout before anybody has given it a run."""

import sys

from speaking import Speaker, write  # type: ignore[import-not-found]  # a script finds its own folder

if sys.argv[1:] != ["describe"]:
    write(b"hello there\n")
speaker = Speaker()
speaker.start()
speaker.result()
