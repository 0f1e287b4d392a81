#!/usr/bin/env python3
"""It leaves without having read a byte of its invocation."""

import sys

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

if sys.argv[1:] == ["describe"]:
    Speaker()
sys.exit(4)
