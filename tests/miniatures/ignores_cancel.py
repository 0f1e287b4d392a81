#!/usr/bin/env python3
"""It hears nothing that is said to it; only a signal ends it."""

import signal

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(cancel=True)
speaker.start()
signal.pause()
