#!/usr/bin/env python3
"""Binds a session, and does not declare that it can resume one."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
speaker.say("session_bound", executor_session_id="mini-1")
speaker.result()
