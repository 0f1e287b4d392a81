#!/usr/bin/env python3
"""No fault: its result is its environment, folder, group and session."""

import json
import os
from pathlib import Path

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
shown = {"environment": dict(os.environ), "cwd": str(Path.cwd())}
speaker.result(json.dumps({**shown, "leads_group": os.getpgid(0) == os.getpid(), "session": os.getsid(0)}))
