#!/usr/bin/env python3
"""It neither reads its invocation nor says a word."""

import signal
import sys

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

if sys.argv[1:] == ["describe"]:
    Speaker()
signal.pause()
