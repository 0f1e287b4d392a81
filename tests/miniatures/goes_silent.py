#!/usr/bin/env python3
"""It sends a heartbeat and is then stopped, so that it can neither speak nor hear."""

import os
import signal

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(cancel=True)
speaker.start()
speaker.say("heartbeat", phase="model", last_progress_seq=1)
os.kill(os.getpid(), signal.SIGSTOP)
