#!/usr/bin/env python3
"""Starts processes that start processes, each in a session of its own. For the machine's sake the 300th is the last."""

import os
import signal

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(cancel=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
permits, given = os.pipe()
os.write(given, b"." * 300)
os.set_blocking(permits, False)
speaker.start()
first = os.getpid()
while True:
    try:
        os.read(permits, 1)
    except BlockingIOError:
        signal.pause()
    else:
        if os.fork() == 0:
            os.setsid()
        elif os.getpid() == first and speaker.seq == 1:
            speaker.say("log", level="info", message="more and more")
