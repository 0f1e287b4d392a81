#!/usr/bin/env python3
"""No fault: it writes the beginning of a message with terminal escapes that are cut in two, and awaits its cancel."""

import sys

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(cancel=True, streaming=True)
speaker.start()
for text in ("Before \x1b", "[31mred, \x9b", "2J and \x1b]0;title\x07", "日本語" * 20, "\nthe end so far"):
    speaker.say("message_delta", message_id="m1", role="assistant", content=[{"type": "text", "text": text}])
speaker.read_line()
speaker.cancelled("it was asked to stop")
sys.exit(130)
