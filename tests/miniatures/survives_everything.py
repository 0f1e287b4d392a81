#!/usr/bin/env python3
"""Ignores every request to end and the end of its stdin, and starts daemons in sessions of their own."""

import signal
import subprocess

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(cancel=True)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
subprocess.run(["/bin/sh", "-c", "setsid sh -c 'trap \"\" TERM HUP; sleep 1000 & sleep 1000' &"], check=True)
speaker.start()
speaker.say("log", level="info", message="daemons are up")
while True:
    signal.pause()
