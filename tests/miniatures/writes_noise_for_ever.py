#!/usr/bin/env python3
"""It sends a heartbeat, and from then on the text that it is asked for, again and again, which is no event."""

import time

from speaking import Speaker, write  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
speaker.say("heartbeat", phase="model", last_progress_seq=1)
noise = speaker.invocation["parameters"]["noise"].encode()
pause = speaker.invocation["parameters"].get("pause_seconds")
while True:
    write(noise if pause else noise * (65536 // len(noise)))
    time.sleep(pause or 0)
