#!/usr/bin/env python3
"""It ignores everything but SIGKILL."""

import signal

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(cancel=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
speaker.start()
while True:
    signal.pause()
