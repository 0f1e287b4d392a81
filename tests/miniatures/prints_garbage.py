#!/usr/bin/env python3
"""A library of its prints on stdout before and between its events."""

from speaking import Speaker, write  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker()
write(b"Loading checkpoint shards: 100%\n")
speaker.start()
write(b'\xff\xfe not even UTF-8\n{"event_type": NaN}\n[1, 2]\n\n')
speaker.result()
