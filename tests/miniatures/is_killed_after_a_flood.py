#!/usr/bin/env python3
"""It says as many events as it is asked to, all of them flushed, and is killed."""

import json
import os
import signal

from speaking import Speaker, write  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
events = [
    speaker.event("log", level="info", message="x" * 100) for _ in range(speaker.invocation["parameters"]["events"])
]
write(b"".join(json.dumps(event).encode() + b"\n" for event in events))
os.kill(os.getpid(), signal.SIGKILL)
