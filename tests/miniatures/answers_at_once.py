#!/usr/bin/env python3
"""No fault: it binds a session and answers with the prompt; a resume says which session it goes on."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(resume=True, cancel=True)
speaker.start()
speaker.say("session_bound", executor_session_id="mini-1", model="miniature-model")
prompt = speaker.invocation["parameters"].get("prompt", "")
remembered = speaker.invocation.get("executor_session_id")
speaker.result(f"{prompt} (going on with {remembered})" if remembered else prompt)
