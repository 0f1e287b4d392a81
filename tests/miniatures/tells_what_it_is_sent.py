#!/usr/bin/env python3
"""No fault: it ends its run, and then says on stderr every line that it was sent after the invocation."""

import sys

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
speaker.result()
sent = sys.stdin.read()
print(f"sent afterwards: {sent!r}", file=sys.stderr)
