#!/usr/bin/env python3
"""No fault: its result is the invocation that it read."""

import json

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(resume=True)
speaker.start()
speaker.result(json.dumps(speaker.invocation))
