#!/usr/bin/env python3
"""It reads its invocation and then says nothing at all."""

import signal

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

Speaker()
signal.pause()
