#!/usr/bin/env python3
"""Says that it stays for further turns, and leaves after each run."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(multi_turn=True, resume=True)
speaker.start()
speaker.result()
