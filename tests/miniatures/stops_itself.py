#!/usr/bin/env python3
"""It stops its whole group, so that it can neither speak nor hear nor obey."""

import os
import signal

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(cancel=True)
speaker.start()
os.killpg(0, signal.SIGSTOP)
