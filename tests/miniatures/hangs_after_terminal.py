#!/usr/bin/env python3
"""It ends its run, but not itself; not even the end of stdin makes it leave."""

import signal

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
speaker.result()
signal.pause()
