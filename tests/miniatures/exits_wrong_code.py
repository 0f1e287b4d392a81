#!/usr/bin/env python3
"""Its result is fine, its exit code says otherwise."""

import sys

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
speaker.result()
sys.exit(3)
