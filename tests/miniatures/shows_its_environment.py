#!/usr/bin/env python3
"""No fault: its result is its environment, folder and session."""

import json
import os
from pathlib import Path

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
speaker.result(
    json.dumps({"environment": dict(os.environ), "cwd": str(Path.cwd()), "leads_session": os.getsid(0) == os.getpid()})
)
