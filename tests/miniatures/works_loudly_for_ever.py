#!/usr/bin/env python3
"""No fault: it sends messages until it is asked to leave."""

import selectors
import sys

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(cancel=True)
speaker.start()
selector = selectors.DefaultSelector()
selector.register(0, selectors.EVENT_READ)
while not selector.select(0.05):
    speaker.say("message", message_id="m", role="assistant", content=[{"type": "text", "text": "still here"}])
speaker.cancelled("asked to")
sys.exit(130)
