#!/usr/bin/env python3
"""No fault: it works until a cancel line comes, and says so."""

import json
import sys

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(cancel=True)
speaker.start()
line = speaker.read_line()
if line:
    speaker.cancelled(f"asked because of: {json.loads(line).get('reason')}")
    sys.exit(130)
