#!/usr/bin/env python3
"""No fault: it writes a message in more pieces than a page has events."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(streaming=True)
speaker.start()
for number in range(2):
    words = [f"word{number}.{n} " for n in range(250)]
    for word in words:
        speaker.say(
            "message_delta", message_id=f"m{number}", role="assistant", content=[{"type": "text", "text": word}]
        )
    whole = [{"type": "text", "text": "".join(words)}]
    speaker.say("message", message_id=f"m{number}", role="assistant", content=whole)
speaker.result()
