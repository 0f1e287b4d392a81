#!/usr/bin/env python3
"""Its last line is whole but for the line end."""

import json

from speaking import Speaker, write  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
event = speaker.event("result", result_text="done", result_data=None, stop_reason="end_turn")
write(json.dumps(event).encode())
