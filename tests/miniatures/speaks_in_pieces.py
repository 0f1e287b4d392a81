#!/usr/bin/env python3
"""No fault: it says a message in pieces before it says it as a whole, as soon as the file in its prompt exists."""

import time
from pathlib import Path

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(cancel=True)
speaker.start()
words = [f"word{n} " for n in range(20)]
for word in words:
    piece = [{"type": "text", "text": word}]
    speaker.say("message_delta", message_id='m"1', role="assistant", content=piece)
prompt = speaker.invocation["parameters"]["prompt"]
while prompt.startswith("/") and not Path(prompt).exists():
    time.sleep(0.05)
speaker.say("message", message_id='m"1', role="assistant", content=[{"type": "text", "text": "".join(words)}])
speaker.result()
