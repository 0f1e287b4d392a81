#!/usr/bin/env python3
"""It ends, and then ends again, otherwise."""

import sys

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
speaker.result("first")
speaker.failure("failed", "internal_error", "second")
sys.exit(0)
