#!/usr/bin/env python3
"""It takes the first bytes of its invocation and leaves the rest in the pipe."""

import os
import re

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder


class HastySpeaker(Speaker):  # type: ignore[misc]  # its base is not found, see above
    def read_line(self) -> bytes:
        found = re.findall(rb'"(?:run_id|session_id)":"[^"]*"', os.read(0, 4096))
        return b"{" + b",".join(found) + b"}"


speaker = HastySpeaker()
speaker.start()
speaker.result()
