#!/usr/bin/env python3
"""It closes its stdin as soon as it has read its invocation, and works until it is ended."""

import os
import signal

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(cancel=True)
os.close(0)
speaker.start()
signal.pause()
