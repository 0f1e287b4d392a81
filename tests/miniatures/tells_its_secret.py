#!/usr/bin/env python3
"""It writes its key to stdout, as no event, and to stderr, and fails."""

import os
import sys

from speaking import Speaker, write  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
key = os.environ["MINIATURE_KEY"]
write(f"using key {key} now\n".encode())
sys.stderr.write(f"401: bad key {key}\n")
sys.exit(1)
