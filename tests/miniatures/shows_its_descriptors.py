#!/usr/bin/env python3
"""No fault: its result is the list of its descriptors."""

import json
import os
from pathlib import Path

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


speaker = Speaker()
speaker.start()
listed = [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
# The listing's own is closed again.
speaker.result(json.dumps(sorted(filter(is_open, listed))))
