#!/usr/bin/env python3
"""No fault: the first run in a folder is at a usage limit, which is reset after as many seconds as the prompt says."""

import sys
from pathlib import Path

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
try:
    Path("limited").touch(exist_ok=False)
except FileExistsError:
    speaker.result()
else:
    reset = float(speaker.invocation["parameters"]["prompt"])
    error = {"type": "quota_exceeded", "message": "used up", "retryable": False, "side_effects": "none"}
    speaker.say("failure", status="failed", error={**error, "origin": "provider", "retry_after_seconds": reset})
    sys.exit(1)
