#!/usr/bin/env python3
"""It closes its stdout without a terminal event and stays."""

import os
import signal

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
os.close(1)
signal.pause()
