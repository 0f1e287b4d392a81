#!/usr/bin/env python3
"""It dies in the middle of its result."""

import json

from speaking import Speaker, write  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
line = json.dumps(speaker.event("result", result_text="done", result_data=None, stop_reason="end_turn"))
write(line[:60].encode())
