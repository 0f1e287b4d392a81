#!/usr/bin/env python3
"""It talks, but never in events."""

from speaking import Speaker, write  # type: ignore[import-not-found]  # a script finds its own folder

Speaker()
write(b"hello\n" * 1000)
