#!/usr/bin/env python3
"""It asks for more memory than any machine has, and dies of the answer."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
speaker.start()
bytearray(1 << 60)
