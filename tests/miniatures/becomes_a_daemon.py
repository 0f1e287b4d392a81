#!/usr/bin/env python3
"""It forks twice, into a session of its own, and goes on there; the process that was started leaves."""

import os
import signal

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(cancel=True)
speaker.start()
if os.fork() > 0:
    os._exit(0)
os.setsid()
if os.fork() > 0:
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    signal.pause()
