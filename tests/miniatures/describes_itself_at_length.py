#!/usr/bin/env python3
"""Its description is longer than anybody reads."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

Speaker(**{"_miniature/words": "x" * 2**20})
