#!/usr/bin/env python3
"""It is killed while a person is asked."""

import os
import signal

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(input=True)
speaker.start()
options = [{"id": "allow", "label": "Allow", "effect": "allow"}, {"id": "deny", "label": "Deny", "effect": "deny"}]
speaker.say("input_requested", request_id="call_1", kind="permission", title="May I?", options=options)
os.kill(os.getpid(), signal.SIGKILL)
