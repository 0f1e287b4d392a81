#!/usr/bin/env python3
"""Answers, binds a session, and does not know that session when it is asked again."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(resume=True)
speaker.start()
if speaker.invocation["mode"] == "resume":
    speaker.failure("failed", "session_not_found", "who?")
else:
    speaker.say("session_bound", executor_session_id="mini-1")
    speaker.result("no JSON")
