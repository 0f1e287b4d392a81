#!/usr/bin/env python3
"""Names a session that no text can hold: half of a character that UTF-16 writes in two."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(resume=True)
speaker.start()
speaker.say("session_bound", executor_session_id="\ud800")
speaker.result("hello")
